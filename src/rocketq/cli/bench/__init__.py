"""`rocketq bench`: puts a cluster under load and says what it can do.

options     what the sub-commands share: where, how much, how long
histogram   latencies in constant memory
tally       what one side of a load has done so far
view        the figures, while it runs and when it is over
sending     producers, as fast as they can or at a pace
arriving    consumers
produce, consume, latency, mixed: the sub-commands, put together from these
"""

from typing import Final

from rocketq.cli.bench.consume import consume
from rocketq.cli.bench.latency import latency
from rocketq.cli.bench.mixed import mixed
from rocketq.cli.bench.produce import produce
from rocketq.cli.commands import group

__all__ = ["run"]

_DESCRIPTION: Final = """\
Put a cluster under load and measure it.

  rocketq bench produce                      how many messages it takes
  rocketq bench produce --mode sync          ... when every sender waits for each receipt
  rocketq bench consume                      how fast it hands them out again
  rocketq bench latency --rate 2000          how long a message takes at a pace it can keep
  rocketq bench mixed                        senders and consumers at the same time

The topic `bench` is made when it is not there; its messages stay until the broker's
retention removes them. On a terminal the figures are shown as they come, and at the end
there is a report, with --json one JSON object. The exit code is 1 when anything failed."""

run = group(
    _DESCRIPTION, {"produce": produce, "consume": consume, "latency": latency, "mixed": mixed}
)
