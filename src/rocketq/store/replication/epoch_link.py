"""One slave of a master that a controller elected, as its master sees it.

As in `slave_link`, but that the two say hello first: the slave says which of the brokers it is,
the master which reigns its log knows. A piece of the log never lies in two of them.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from rocketq.store.config import StoreConfig
from rocketq.store.replication.epoch_frames import SlaveWords, encode_head, encode_master_hello
from rocketq.store.replication.epochs import Epochs
from rocketq.store.replication.frames import InvalidFrame
from rocketq.store.replication.log_source import LogSource
from rocketq.store.replication.slave_link import SlaveLink

if TYPE_CHECKING:
    from rocketq.store.replication.replicas import Replicas

logger = logging.getLogger(__name__)

_TELL_AFTER_S: Final = 0.02


class EpochSlaveLink(SlaveLink):
    """Belongs to one connection; runs on the event loop alone."""

    def __init__(
        self, replicas: "Replicas", source: LogSource, config: StoreConfig, epochs: Epochs
    ) -> None:
        super().__init__(replicas, source, config)
        self.is_learner = False
        self.caught_up_at = asyncio.get_running_loop().time()
        """When it last had everything."""
        self._epochs = epochs
        self._words = SlaveWords()
        self._mark = (0, self.caught_up_at)
        self._told = -1
        self._telling: asyncio.TimerHandle | None = None

    def connection_lost(self, error: Exception | None) -> None:
        if self._telling is not None:
            self._telling.cancel()
        super().connection_lost(error)

    # What the slave says

    def data_received(self, data: bytes) -> None:
        self._read_at = asyncio.get_running_loop().time()
        had_hello = self._words.hello is not None
        try:
            position = self._words.take(data)
        except InvalidFrame as error:
            self.close(str(error))
            return
        hello = self._words.hello
        if hello is not None and not had_hello:
            self.broker_id = hello.broker_id
            self.is_learner = hello.is_learner
            if not self._replicas.introduced(self):
                return
            self._write(encode_master_hello(self._source.end, self._epochs.newest()))
        if position is not None:
            self._reported(position)
            self._note_time()

    def _first_position(self) -> int:
        assert self._words.hello is not None
        return self._replicas.start_of_new_slave(from_last=self._words.hello.from_last)

    def _note_time(self) -> None:
        """Has it everything, or at least what was everything when it was last looked at?"""
        now = asyncio.get_running_loop().time()
        end, when = self._mark
        if self.acknowledged >= self._source.end:
            self.caught_up_at = now
        elif self.acknowledged >= end:
            self.caught_up_at = max(self.caught_up_at, when)
        else:
            return
        self._mark = (self._source.end, now)

    def has_caught_up_since(self, when: float) -> bool:
        return self.acknowledged >= self._source.end or self.caught_up_at >= when

    # What it is sent

    def _allowance(self) -> int:
        return min(super()._allowance(), self._epochs.next_start(self.position) - self.position)

    def _head(self, size: int) -> bytes:
        self._told = self._replicas.confirmed_for_slaves
        return encode_head(size, self.position, self._epochs.at(self.position), self._told)

    def tell_confirmed(self) -> None:
        """Have the slave know soon how far the log may be shown, if no piece tells it first."""
        if self._telling is None and self.position >= 0:
            loop = asyncio.get_running_loop()
            self._telling = loop.call_later(_TELL_AFTER_S, self._tell)

    def _tell(self) -> None:
        self._telling = None
        is_open = self._transport is not None and not self._transport.is_closing()
        if is_open and not self._is_paused and self._told < self._replicas.confirmed_for_slaves:
            self._write(self._head(0))
