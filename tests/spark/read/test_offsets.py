from hypothesis import given
from hypothesis import strategies as st

from rocketq.message.queue import MessageQueue
from rocketq.spark.read.offsets import behind, from_json, limited, to_json
from rocketq.spark.read.partitions import plan

queues = st.builds(
    MessageQueue, st.sampled_from(["a", "b"]), st.sampled_from(["x", "y"]), st.integers(0, 9)
)
ranges = st.dictionaries(queues, st.tuples(st.integers(0, 10**9), st.integers(0, 10**6)))
short_ranges = st.dictionaries(queues, st.tuples(st.integers(0, 10**9), st.integers(0, 2000)))


@given(st.dictionaries(queues, st.integers(0, 2**62)))
def test_offsets_survive_the_checkpoint(offsets: dict[MessageQueue, int]) -> None:
    assert from_json(to_json(offsets)) == offsets


@given(ranges, st.integers(1, 10**6))
def test_a_limit_is_kept_and_used_up(
    given_ranges: dict[MessageQueue, tuple[int, int]], count: int
) -> None:
    start = {queue: begin for queue, (begin, _) in given_ranges.items()}
    end = {queue: begin + size for queue, (begin, size) in given_ranges.items()}
    chosen = limited(start, end, count)
    taken = sum(behind(start, chosen).values())
    assert taken == min(count, sum(size for _, size in given_ranges.values()))
    assert all(start[queue] <= chosen[queue] <= end[queue] for queue in end)


def test_a_small_queue_beside_a_large_one_moves_on() -> None:
    small, large = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)
    chosen = limited({small: 0, large: 0}, {small: 1, large: 10**6}, 100)
    assert chosen == {small: 1, large: 99}


@given(short_ranges, st.integers(0, 50), st.none() | st.integers(1, 3000))
def test_a_plan_covers_every_range_once(
    given_ranges: dict[MessageQueue, tuple[int, int]], least: int, most: int | None
) -> None:
    start = {queue: begin for queue, (begin, _) in given_ranges.items()}
    end = {queue: begin + size for queue, (begin, size) in given_ranges.items()}
    planned = plan(start, end, min_partitions=least, max_records=most)
    at = dict(start)
    for part in planned:
        assert part.start == at[part.queue]
        assert len(part) > 0
        assert most is None or len(part) <= most
        at[part.queue] = part.end
    assert at == end
    assert len(planned) >= min(least, sum(size for _, size in given_ranges.values()))


def test_more_tasks_than_queues_share_the_longest_one() -> None:
    short, long = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)
    planned = plan({short: 0, long: 0}, {short: 100, long: 900}, min_partitions=10)
    assert len(planned) == 10
    assert max(len(part) for part in planned) == 100
