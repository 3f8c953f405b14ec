"""Finds messages by key and by their place in the log."""

from rocketq.broker.access.references import References
from rocketq.broker.config import LiveConfig
from rocketq.message.record.reader import read_record
from rocketq.remoting import Command, Connection, Handlers, RequestRejected, ResponseCode
from rocketq.remoting.access.needs import GET
from rocketq.remoting.headers import QueryMessage, QueryMessageResponse, ViewMessageById
from rocketq.store import MessageStore


class QueryProcessor:
    """Looks things up; changes nothing."""

    def __init__(self, live: LiveConfig, store: MessageStore, references: References) -> None:
        self._live = live
        self._store = store
        self._references = references

    def handlers(self) -> Handlers:
        return {QueryMessage.CODE: self._by_key, ViewMessageById.CODE: self._by_offset}

    def _by_key(self, request: Command, connection: Connection) -> Command:
        header = request.header(QueryMessage)
        limit = self._live.store
        count = min(header.max_num, limit.max_msgs_num_batch)
        if header.unique_key:
            count = limit.default_query_max_num
        found = self._store.query_keys(
            header.topic, header.key, count, header.begin_timestamp, header.end_timestamp
        )
        answer = QueryMessageResponse(
            index_last_update_timestamp=found.last_update_timestamp,
            index_last_update_phyoffset=found.last_update_offset,
        )
        if found.buffers:
            return request.reply(answer, found.buffers)
        return request.reply(
            answer,
            code=ResponseCode.QUERY_NOT_FOUND,
            remark="can not find message, maybe time range not correct",
        )

    def _by_offset(self, request: Command, connection: Connection) -> Command:
        offset = request.header(ViewMessageById).offset
        record = self._store.look_up(offset)
        if record is None:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}"
            )
        if self._references.are_checked:
            topic = read_record(record).topic.decode("utf-8", "replace")
            self._references.check(request, connection, topic, GET)
        return request.reply(body=record)
