"""Requests that end half messages: make them visible, or drop them.

A broker of Apache RocketMQ that is told twice to commit a half message stores it twice. So whoever
does not know whether a request was heard looks for the message before it asks again.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from rocketq.client.cluster.instance import ClientInstance
from rocketq.client.cluster.rpc import rejected
from rocketq.client.cluster.signing import signing_hooks
from rocketq.message.flags import SysFlag
from rocketq.message.names import wrap_namespace
from rocketq.remoting.codes import RequestCode
from rocketq.remoting.headers import EndTransaction
from rocketq.remoting.wire.command import Command
from rocketq.spark.options import SinkOptions
from rocketq.spark.wire.broker_socket import AnswerSocket, BrokerSocket, EncryptedSocket
from rocketq.spark.wire.client import client_config
from rocketq.spark.write.sender import TAKEN
from rocketq.spark.write.side_topic import master_of
from rocketq.spark.write.whole.places import HalfPlace, places_of
from rocketq.spark.write.written import Prepared

_UNDER_WAY: Final = 512
_AT_ONCE: Final = 64


class Ends:
    """The ends of one batch at one broker. Belongs to a thread."""

    def __init__(
        self, client: ClientInstance, options: SinkOptions, broker_name: str, topic: str, group: str
    ) -> None:
        address = master_of(client, broker_name)
        access = options.connection
        hooks = signing_hooks(client_config(access))
        self._fields = EndTransaction(
            producer_group=group,
            tran_state_table_offset=0,
            commit_log_offset=0,
            commit_or_rollback=SysFlag.TRANSACTION_COMMIT,
            # The time in which a producer may speak for itself has no meaning here.
            from_transaction_check=True,
            msg_id="",
            transaction_id="",
            topic=topic,
            broker_name=broker_name,
        ).to_ext_fields()
        self._socket: BrokerSocket = (
            AnswerSocket(address, hooks, access.timeout_s)
            if access.tls is None
            else EncryptedSocket(address, hooks, access.timeout_s, access.tls)
        )
        self._under_way = 0

    def commit(self, halves: Iterable[HalfPlace], may_go_on: Callable[[], None]) -> None:
        """Make them visible. `may_go_on` raises where that is somebody else's by now."""
        for run in _runs(halves):
            may_go_on()
            self._end(run, SysFlag.TRANSACTION_COMMIT)
        self._wait_for(0)

    def roll_back(self, halves: Iterable[HalfPlace]) -> None:
        for run in _runs(halves):
            self._end(run, SysFlag.TRANSACTION_ROLLBACK)
        self._wait_for(0)

    def _end(self, run: list[HalfPlace], how: int) -> None:
        if run[0].is_ordered:
            self._wait_for(0)  # brokers may take requests in any order
        self._socket.send_all([self._request(half, how) for half in run])
        self._under_way += len(run)
        self._wait_for(_UNDER_WAY)

    def _request(self, half: HalfPlace, how: int) -> Command:
        fields = self._fields | {
            "tranStateTableOffset": str(half.half_offset),
            "commitLogOffset": str(half.log_offset),
            "commitOrRollback": str(how),
            "msgId": half.key,
            "transactionId": half.key,
        }
        return Command.request(RequestCode.END_TRANSACTION, ext=fields)

    def _wait_for(self, under_way: int) -> None:
        while self._under_way > under_way:
            answer = self._socket.receive()
            if answer.code not in TAKEN:
                raise rejected(answer, self._socket.address, RequestCode.END_TRANSACTION)
            self._under_way -= 1

    def close(self) -> None:
        self._socket.close()


def _runs(halves: Iterable[HalfPlace]) -> Iterator[list[HalfPlace]]:
    """What may be asked for at once: of those in order, one of each queue."""
    run: list[HalfPlace] = []
    queues: set[int] = set()
    for half in halves:
        if len(run) == _AT_ONCE or (
            run and (half.is_ordered != run[0].is_ordered or half.queue_id in queues)
        ):
            yield run
            run, queues = [], set()
        run.append(half)
        if half.is_ordered:
            queues.add(half.queue_id)
    if run:
        yield run


def drop(client: ClientInstance, options: SinkOptions, task: Prepared) -> None:
    """Roll back what a task has sent, where no decision names it."""
    group = wrap_namespace(options.connection.namespace, options.producer_group)
    for broker, packed in task.places.items():
        ends = Ends(client, options, broker, task.topic, group)
        try:
            ends.roll_back(places_of(packed, task.prefix))
        finally:
            ends.close()
