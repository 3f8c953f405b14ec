"""Asking a producer what became of a transaction.

The question (CHECK_TRANSACTION_STATE) goes one way to any live producer of the group that
sent the message; its answer, if there is one, comes as an ordinary END_TRANSACTION that
names the two offsets of the question. With nobody online there is nobody to ask, and the
transaction waits for the next time.
"""

import logging

from rocketq.broker.access.references import References
from rocketq.broker.clients.channel import ClientChannel
from rocketq.broker.clients.producers import ProducerTable
from rocketq.broker.transaction.half import question_body, real_queue
from rocketq.message.ids import offset_message_id
from rocketq.message.message import MessageExt
from rocketq.message.names import TRANSACTION_HALF_TOPIC
from rocketq.remoting import Command
from rocketq.remoting.headers import CheckTransactionState
from rocketq.store import AppendResult, MessageInner

logger = logging.getLogger(__name__)


def ask(
    producers: ProducerTable,
    group: str | None,
    broker_name: str,
    half: MessageExt,
    copy: MessageInner,
    at: AppendResult,
    references: References,
) -> bool:
    """Send the question about a stored copy; false if nobody can be asked.

    The question holds the message: it goes to those alone who might have sent it.
    """
    queue = real_queue(half)
    if group is None or queue is None:
        logger.warning("transaction %s names no producer or no topic", half.transaction_id)
        return False

    def may_know(member: ClientChannel) -> bool:
        return references.may_publish(member.user, member.connection.peer_address, queue[0])

    channel = producers.next_channel(group, may_know)
    if channel is None:
        return False
    header = CheckTransactionState(
        topic=TRANSACTION_HALF_TOPIC,
        tran_state_table_offset=at.queue_offset,
        commit_log_offset=at.physical_offset,
        msg_id=half.unique_key,
        transaction_id=half.unique_key,
        offset_msg_id=offset_message_id(copy.store_host, at.physical_offset),
        broker_name=broker_name,
    )
    body = question_body(copy, at, *queue)
    channel.connection.send(Command.request(header, body, oneway=True))
    return True
