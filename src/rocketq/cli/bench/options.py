"""Options that several of the sub-commands share, and what follows from them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Final

from rocketq.cli.bench.tally import Tally
from rocketq.cli.bench.view import LiveView, print_report
from rocketq.cli.commands import Argument, Option
from rocketq.cli.failures import CannotStart, fail, log_to_stderr
from rocketq.cli.interrupts import CUT_SHORT
from rocketq.cli.servers.serving import run_async
from rocketq.common.errors import RocketqError

DEFAULT_TOPIC: Final = "bench"
DEFAULT_SECONDS: Final = 10.0

Topic = Annotated[str, Argument(metavar="[TOPIC]", help="The topic; bench unless given.")]
TopicCount = Annotated[
    int,
    Option("--topics", metavar="N", minimum=1, help="Use N topics: TOPIC-0, TOPIC-1, ..."),
]
Queues = Annotated[
    int | None,
    Option(
        "--queues",
        metavar="N",
        minimum=1,
        help="Make the topics with N queues on each broker; else they stay as they are.",
    ),
]
Size = Annotated[int, Option("--size", metavar="BYTES", minimum=0, help="Bytes of a body.")]
Count = Annotated[
    int | None, Option("--count", metavar="N", minimum=1, help="End after N messages.")
]
Seconds = Annotated[
    float | None, Option("--seconds", metavar="S", minimum=0, help="End after this time.")
]
InFlight = Annotated[
    int,
    Option("--in-flight", metavar="N", minimum=1, help="How many may be without an answer."),
]


def topic_names(topic: str, count: int) -> list[str]:
    return [topic] if count == 1 else [f"{topic}-{number}" for number in range(count)]


def measure(
    command: str,
    tallies: Sequence[Tally],
    work: Callable[[], Awaitable[None]],
    *,
    facts: Mapping[str, object],
    as_json: bool,
) -> None:
    """Run a load with its figures in view, report, and end with 1 if anything failed."""
    log_to_stderr(-1)
    view = LiveView(tallies)

    async def main() -> None:
        async with view.shown():
            await work()

    is_cut_short = False
    try:
        run_async(main)
    except KeyboardInterrupt:
        is_cut_short = True
        for tally in tallies:
            tally.end()
    except (RocketqError, CannotStart) as error:
        fail(error)
    print_report(command, tallies, facts=facts, as_json=as_json)
    if any(tally.failures for tally in tallies):
        raise SystemExit(1)
    if is_cut_short:
        raise SystemExit(CUT_SHORT)
