"""How long requests take, by their code and that of the answer.

A run of requests that came in one read is timed as one: each of them was answered when all
were. Under load there are thousands of runs a second, so one in `RUNS_TIMED` is timed and
counts for all. Requests that come alone are all timed up to a thousand a second; of more than
that again one in `RUNS_TIMED`. Requests whose answer waits, for the disk or for messages, are
timed up to where they begin to wait.
"""

import time
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from rocketq.common.metrics.family import Histogram
from rocketq.remoting.codes import RequestCode, ResponseCode

RUNS_TIMED: Final = 16
LATENCY_MS: Final = (1.0, 3.0, 5.0, 7.0, 10.0, 100.0, 1_000.0, 2_000.0, 3_000.0)

_MOST_SERIES: Final = 2_000
_ONE_IN: Final = RUNS_TIMED
# So many requests are timed in a row, and then again after this long at the earliest.
_IN_A_ROW: Final = 100
_ROW_EVERY_S: Final = 0.1


LABELS: Final = ("request_code", "response_code", "result")


class RequestMeter:
    """Counts for all connections of a server. Owned by the loop."""

    def __init__(
        self, bounds: tuple[float, ...] = LATENCY_MS, units_per_second: float = 1_000.0
    ) -> None:
        """`bounds` of the histograms, in milliseconds unless something else is said."""
        self._bounds = bounds
        self._units_per_second = units_per_second
        self._runs = 0
        self._row_left = _IN_A_ROW
        self._next_row_s = 0.0
        self._passed_over = 0
        self.series: dict[tuple[int, int, bool], Histogram] = {}
        """By code of the request, code of the response and whether nobody waits for it."""

    def is_run_timed(self) -> bool:
        """Whether the next run is one of those that are timed."""
        self._runs += 1
        return self._runs % _ONE_IN == 1

    def weight(self) -> int:
        """For how many the next request that came alone counts; with 0 it is not timed.

        The clock is asked only now and then: it costs as much as all the rest.
        """
        if self._row_left > 0:
            self._row_left -= 1
            return 1
        self._passed_over += 1
        if self._passed_over % _ONE_IN:
            return 0
        now_s = time.perf_counter()
        if now_s >= self._next_row_s:
            self._next_row_s = now_s + _ROW_EVERY_S
            self._row_left = _IN_A_ROW
        return _ONE_IN

    def observe(
        self, code: int, response_code: int, is_oneway: bool, seconds: float, times: int = 1
    ) -> None:
        key = (code, response_code, is_oneway)
        histogram = self.series.get(key)
        if histogram is None:
            if len(self.series) >= _MOST_SERIES:
                return  # codes are whatever clients say
            histogram = self.series[key] = Histogram(self._bounds)
        histogram.observe(seconds * self._units_per_second, times)

    def labelled(self) -> Iterator[tuple[tuple[str, ...], Histogram]]:
        """Values for `LABELS`, as RocketMQ writes them, with what was counted."""
        for (code, response_code, is_oneway), histogram in list(self.series.items()):
            names = request_name(code), _code_name(ResponseCode, response_code)
            yield (*names, "oneway" if is_oneway else "success"), histogram


def request_name(code: int) -> str:
    """As labels have it; the number where it has no name."""
    return _code_name(RequestCode, code)


def _code_name(codes: type[IntEnum], code: int) -> str:
    try:
        return codes(code).name.lower()
    except ValueError:
        return str(code)
