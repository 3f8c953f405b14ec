import pytest

from rocketq.spark.options import InvalidOptions, sink_options, source_options
from rocketq.spark.schema import COLUMNS, DEFAULT_COLUMNS

BASE = {"namesrv": "127.0.0.1:9876", "subscribe": "orders"}


def test_the_least_a_source_needs_is_an_address_and_a_topic() -> None:
    options = source_options(BASE, streaming=False)
    assert options.topics == ("orders",)
    assert options.starting.word == "earliest"
    assert options.ending.word == "latest"
    assert options.columns == DEFAULT_COLUMNS


def test_the_column_for_damage_is_there_when_damage_is_let_through() -> None:
    options = source_options({**BASE, "failOnDamage": "false"}, streaming=False)
    assert options.columns == tuple(COLUMNS)
    assert "body_error" not in DEFAULT_COLUMNS


def test_a_stream_starts_at_the_latest_messages_unless_told_otherwise() -> None:
    assert source_options(BASE, streaming=True).starting.word == "latest"


def test_option_names_are_taken_in_any_case() -> None:
    given = {"NAMESRV": "a:1", "Subscribe": "x, y", "FAILONDATALOSS": "false"}
    options = source_options(given, streaming=False)
    assert options.topics == ("x", "y")
    assert not options.fail_on_data_loss


def test_a_misspelt_option_is_named_with_the_nearest_real_one() -> None:
    with pytest.raises(InvalidOptions, match=r"'maxOffsetPerTrigger'.*'maxOffsetsPerTrigger'"):
        source_options({**BASE, "maxOffsetPerTrigger": "5"}, streaming=True)


def test_a_sink_names_the_nearest_option_too() -> None:
    with pytest.raises(InvalidOptions, match=r"rocketq sink: .*'batchByte'.*'batchBytes'"):
        sink_options({"namesrv": "a:1", "topic": "t", "batchByte": "5"})


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"subscribe": "a"}, "namesrv is missing"),
        ({"namesrv": "a:1"}, "exactly one of subscribe, subscribePattern, assign"),
        ({**BASE, "subscribePattern": "a.*"}, "subscribe and subscribePattern exclude"),
        ({**BASE, "assign": '{"a": {"b": [0]}}'}, "subscribe and assign exclude"),
        ({**BASE, "filter": "a", "sqlFilter": "a = 1"}, "filter and sqlFilter exclude"),
        ({**BASE, "startingOffsets": "first"}, "startingOffsets is 'first'"),
        ({**BASE, "endingOffsets": "earliest"}, "endingOffsets is 'earliest'"),
        ({**BASE, "startingOffsets": "latest", "startingTimestamp": "1"}, "exclude each other"),
        ({**BASE, "startingOffsets": '{"orders": 3}'}, "startingOffsets"),
        (
            {**BASE, "startingTimestamp": "1", "startingOffsetsByTimestamp": "{}"},
            "startingTimestamp and startingOffsetsByTimestamp exclude",
        ),
        ({**BASE, "endingOffsetsByTimestamp": '{"a": {"b": {"0": "latest"}}}'}, "endingOffsetsBy"),
        ({"kafka.bootstrap.servers": "a:1"}, "'kafka.bootstrap.servers'; did you mean 'namesrv'"),
        ({**BASE, "kafka.acks": "all"}, "settings of Kafka's client mean nothing here"),
        ({**BASE, "kafkaColumns": "true", "columns": "body"}, "exclude each other"),
        ({**BASE, "minPartitions": "0"}, "minPartitions is '0'"),
        ({**BASE, "minPartitions": "many"}, "a whole number from 1 on"),
        ({**BASE, "failOnDataLoss": "yes"}, "true or false"),
        ({**BASE, "failOnDamage": "no"}, "true or false"),
        ({**BASE, "maxBodyBytes": "10"}, "a whole number from 1024 on"),
        ({**BASE, "maxBodyBytes": "2000000000"}, "at most 1073741824"),
        ({**BASE, "columns": "body, tag"}, "no column 'tag'; did you mean 'tags'"),
        ({**BASE, "sqlFilter": "price >"}, "sqlFilter"),
        ({**BASE, "maxOffsetsPerTrigger": "5"}, "they are for streams"),
        ({"namesrv": "a:1", "subscribePattern": "("}, "a regular expression"),
        ({"namesrv": "a:1", "assign": "[]"}, "assign"),
        ({"namesrv": "a:1", "assign": "{}"}, "at least one queue"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_words(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(InvalidOptions, match=complaint):
        source_options(given, streaming=False)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(InvalidOptions, match="a stream has no end"):
        source_options({**BASE, "endingOffsets": "latest"}, streaming=True)


def test_a_minimum_above_the_maximum_is_refused() -> None:
    given = {**BASE, "minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "5"}
    with pytest.raises(InvalidOptions, match="minOffsetsPerTrigger 10 is more"):
        source_options(given, streaming=True)


def test_offsets_of_single_queues_may_be_numbers_or_words() -> None:
    text = '{"orders": {"broker-a": {"0": 12, "1": "latest", "2": "earliest"}}}'
    options = source_options({**BASE, "startingOffsets": text}, streaming=False)
    assert options.starting.offsets == {"orders": {"broker-a": {0: 12, 1: -1, 2: -2}}}


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("30", 30), ("15m", 900), ("1 h", 3600), ("2min", 120)]
)
def test_delays_are_given_with_their_unit(text: str, seconds: float) -> None:
    options = source_options({**BASE, "maxTriggerDelay": text}, streaming=True)
    assert options.max_trigger_delay_s == seconds


def test_a_batch_larger_than_brokers_take_is_refused() -> None:
    with pytest.raises(InvalidOptions, match="batchBytes"):
        sink_options({"namesrv": "a:1", "topic": "t", "batchBytes": "5000000"})


def test_a_table_that_is_read_may_be_written_as_well() -> None:
    options = sink_options({**BASE, "startingOffsets": "latest", "groupId": "g"})
    assert options.topic == "orders"
    assert sink_options({**BASE, "subscribe": "a,b"}).topic is None
    assert sink_options({**BASE, "topic": "b"}).topic == "b"
    with pytest.raises(InvalidOptions, match="'startingOffsets'"):
        sink_options({"namesrv": "a:1", "topic": "t", "startingOffsets": "latest"})
