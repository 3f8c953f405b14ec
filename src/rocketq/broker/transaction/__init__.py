"""Transactional messages."""

from rocketq.broker.transaction.service import TransactionalMessages

__all__ = ["TransactionalMessages"]
