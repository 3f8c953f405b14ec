"""The messages of RocketMQ 5's gRPC protocol.

    from rocketq.proxy.protocol import messages as pb

    status = pb.Status(code=pb.OK, message="OK")

They live in a pool of their own: the official Python client brings the same definitions, and
the pool that all share takes each name once.
"""

from rocketq.proxy.protocol.pool import Messages, messages

__all__ = ["Messages", "messages"]
