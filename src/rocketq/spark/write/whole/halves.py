"""Half messages: rows at a broker that nobody sees before they are ended.

Brokers take no batches of them, so each is a request of its own. What is in doubt is simply sent
again: a half message that is in no decision never becomes visible.
"""

import logging
import time
from dataclasses import dataclass
from typing import Final

from rocketq.client.cluster.instance import ClientInstance
from rocketq.common.errors import RocketqError
from rocketq.message.flags import SysFlag
from rocketq.message.names import AUTO_CREATE_TOPIC, wrap_namespace
from rocketq.message.properties.codec import PropertyName, get_property
from rocketq.message.queue import MessageQueue
from rocketq.message.record.batch import split_batch
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers import SendMessageV2
from rocketq.remoting.wire.command import Command
from rocketq.spark.options import SinkOptions
from rocketq.spark.wire.broker_socket import AnswerSocket
from rocketq.spark.write.once.task_name import BATCH_PROPERTY, TaskName
from rocketq.spark.write.sender import NEW_TOPIC_QUEUES, Batch, BatchSender
from rocketq.spark.write.whole.checks import answer_checks
from rocketq.spark.write.whole.ends import drop
from rocketq.spark.write.whole.places import pack
from rocketq.spark.write.written import Prepared

logger = logging.getLogger(__name__)

_UNDER_WAY: Final = 512
_TOGETHER: Final = 64
_BORN, _FLAG, _PROPERTIES = "g", "h", "i"  # what differs in the header of a send
_UNIQUE_KEY: Final = PropertyName.UNIQUE_KEY.encode()


@dataclass(slots=True, eq=False, kw_only=True)
class Half(Batch):
    """One row on its way."""

    flag: int
    properties: bytes


class HalfSender(BatchSender):
    """The sends of one task, message by message."""

    waits_for_order = False  # half messages have none; they are ended in order
    plain_socket = AnswerSocket

    def __init__(
        self, client: ClientInstance, options: SinkOptions, task: TaskName, prefix: bytes
    ) -> None:
        super().__init__(client, options)
        self._task = task
        self._prefix = prefix
        self._topic = ""
        self._is_ordered = False
        self._fields: dict[MessageQueue, dict[str, str]] = {}
        self._group = wrap_namespace(self._namespace, options.producer_group)
        own = {
            PropertyName.TRANSACTION_PREPARED: "true",
            PropertyName.PRODUCER_GROUP: self._group,
            BATCH_PROPERTY: task.label,
        }
        self._own_properties = "".join(f"{name}\x01{value}\x02" for name, value in own.items())
        self._places: dict[str, list[tuple[int, int, int, int]]] = {}

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        queues = super().queues(topic)
        self._topic = queues[0].topic
        answer_checks(self._options, self._topic)
        return queues

    def send(self, batch: Batch) -> None:
        """Each row of a batch by itself, several requests together."""
        self._is_ordered |= batch.is_fixed
        halves = [
            Half(batch.queue, body, 1, batch.is_fixed, flag=flag, properties=properties)
            for flag, body, properties in split_batch(batch.body)
        ]
        for at in range(0, len(halves), _TOGETHER):
            together = halves[at : at + _TOGETHER]
            self._post_all(together)
            self._under_way.extend(together)
            while len(self._under_way) > _UNDER_WAY:
                self.wait(self._under_way.popleft())

    def _post_all(self, halves: list[Half]) -> None:
        """Ahead of their turns, where nothing is in the way; what is left is sent in its turn."""
        address = self._masters.get(halves[0].queue.broker_name)
        if address is None:
            return
        requests = [self._encoded(half) for half in halves]
        try:
            self._connected(address).send_all(requests)
        except RocketqError as error:
            logger.info("%s: %s", halves[0].queue, error)
            self._disconnect(address)
            return
        for half, request in zip(halves, requests, strict=True):
            half.address, half.opaque = address, request.opaque

    def _encoded(self, batch: Batch) -> Command:
        assert isinstance(batch, Half)
        fields = self._fields_of(batch.queue) | {
            _FLAG: str(batch.flag),
            _BORN: str(time.time_ns() // 1_000_000),
            _PROPERTIES: batch.properties.decode() + self._own_properties,
        }
        return Command.request(RequestCode.SEND_MESSAGE_V2, bytes(batch.body), ext=fields)

    def _fields_of(self, queue: MessageQueue) -> dict[str, str]:
        """What all requests to a queue say."""
        fields = self._fields.get(queue)
        if fields is None:
            header = SendMessageV2(
                producer_group=self._group,
                topic=queue.topic,
                default_topic=AUTO_CREATE_TOPIC,
                default_topic_queue_nums=NEW_TOPIC_QUEUES,
                queue_id=queue.queue_id,
                sys_flag=SysFlag.TRANSACTION_PREPARED,
                born_timestamp=0,
                flag=0,
                properties="",
                reconsume_times=0,
                unit_mode=False,
                batch=False,
                broker_name=queue.broker_name,
            )
            fields = self._fields[queue] = header.to_ext_fields()
        return fields

    def _taken(self, batch: Batch, answer: Command) -> None:
        assert isinstance(batch, Half)
        key = get_property(batch.properties, _UNIQUE_KEY) or b""
        fields = answer.ext_fields
        log, half = int(fields["msgId"][-16:], 16), int(fields["queueOffset"])
        place = int(key[-8:], 16), batch.queue.queue_id, log, half
        self._places.setdefault(batch.queue.broker_name, []).append(place)

    def prepared(self, messages: int, size: int) -> Prepared:
        """What the driver needs to know; by broker, in the order of the rows."""
        return Prepared(
            messages,
            size,
            sink=self._task.sink,
            batch=self._task.batch,
            topic=self._topic,
            prefix=self._prefix.decode(),
            is_ordered=self._is_ordered,
            places={broker: pack(sorted(places)) for broker, places in self._places.items()},
        )

    def give_up(self) -> None:
        """Drop what was sent, as far as that can be done now; brokers ask about the rest."""
        try:
            drop(self._client, self._options, self.prepared(0, 0))
        except RocketqError as error:
            logger.info("half messages are left: %s", error)
