"""Half messages that were given up: asked about again on request (code 323)."""

from rocketq.broker.transaction import TransactionalMessages
from rocketq.message.ids import InvalidMessageId, parse_offset_message_id
from rocketq.remoting import Command, Connection, Handlers, RequestRejected, ResponseCode
from rocketq.remoting.headers import ResumeCheckHalfMessage
from rocketq.store import MessageStore


class TransactionAdminProcessor:
    """Puts half messages back to the start of their checks."""

    def __init__(self, transactions: TransactionalMessages, store: MessageStore) -> None:
        self._transactions = transactions
        self._store = store

    def handlers(self) -> Handlers:
        return {ResumeCheckHalfMessage.CODE: self._resume}

    def _resume(self, request: Command, connection: Connection) -> Command:
        message_id = request.header(ResumeCheckHalfMessage).msg_id or ""
        try:
            _, _, offset = parse_offset_message_id(message_id)
        except InvalidMessageId as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from None
        message = self._store.message_at(offset)
        if message is None:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, f"no message {message_id} here")
        if not self._transactions.resume(message):
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed."
            )
        return request.reply()
