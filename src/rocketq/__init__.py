"""rocketq: Apache RocketMQ's system in Python.

The blocking SDK is here (`from rocketq import Producer, PushConsumer, Message`), its asyncio
twin with the same names in `rocketq.aio`. Names load on first use, so that a broker does not
pay for the SDK nor a producer for the store.
"""

import os as _os
from typing import TYPE_CHECKING

if _os.environ.get("ROCKETQ_PURE") == "1":
    # Before any submodule: from here on the sources win over what was compiled from them.
    from rocketq.common.language import uncompiled as _uncompiled

    _uncompiled.prefer_sources()

from rocketq.common.language.lazy_names import lazy_names as _lazy_names

__version__ = "0.1.0"

if TYPE_CHECKING:
    from rocketq.client.blocking.consumers import LitePullConsumer as LitePullConsumer
    from rocketq.client.blocking.consumers import PullConsumer as PullConsumer
    from rocketq.client.blocking.consumers import PullSchedule as PullSchedule
    from rocketq.client.blocking.consumers import PushConsumer as PushConsumer
    from rocketq.client.blocking.consumers import SimpleConsumer as SimpleConsumer
    from rocketq.client.blocking.producer import Producer as Producer
    from rocketq.client.blocking.producer import TransactionProducer as TransactionProducer
    from rocketq.client.names import *  # noqa: F403

__all__ = _lazy_names(__name__)
