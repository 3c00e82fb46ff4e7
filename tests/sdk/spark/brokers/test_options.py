"""Options and defaults are the connector's, in any letter case; options that it refuses or lacks are refused."""

from __future__ import annotations

import logging

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.routing.partitions import TopicPartition

pytest.importorskip("pyarrow")

from kafkawire.sdk.spark.brokers.options import WireOptions, parse_options
from kafkawire.sdk.spark.schema import CONNECTOR, HEADERS
from kafkawire.sdk.spark.selection import EARLIEST, LATEST, Bound, Offsets, Selection, Times

GIVEN = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "orders"}
ORDERS = TopicPartition("orders", 0)


def options(**given: str) -> WireOptions:
    return parse_options({**GIVEN, **given})


def test_defaults() -> None:
    found = options()
    assert found == WireOptions(found.client, Selection(frozenset(["orders"])))
    assert (found.columns, found.fails_on_loss, found.poll_timeout_ms) == (CONNECTOR, True, 120_000)
    assert (found.attempts, found.retry_interval_ms, found.trigger_delay_max_ms) == (3, 1000, None)


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("startingoffsets", "earliest", "starting", Bound("startingOffsets", Offsets(EARLIEST))),
        ("endingOffsets", "latest", "ending", Bound("endingOffsets", Offsets(LATEST))),
        ("startingTimestamp", "5", "starting", Bound("startingTimestamp", Times(5))),
        ("endingTimestamp", "0", "ending", Bound("endingTimestamp", Times(0))),
        (
            "startingOffsetsByTimestamp",
            '{"orders":{"0":5}}',
            "starting",
            Bound("startingOffsetsByTimestamp", Times(None, {ORDERS: 5})),
        ),
        ("startingOffsetsByTimestampStrategy", "LATEST", "takes_latest", True),
        ("startingOffsetsByTimestampStrategy", "error", "takes_latest", False),
        ("failOnDataLoss", "false", "fails_on_loss", False),
        ("includeHeaders", "true", "columns", (*CONNECTOR, HEADERS)),
        ("extra", "leaderepoch, sequence", "columns", (*CONNECTOR, "leaderEpoch", "sequence")),
        ("minPartitions", "7", "tasks_min", 7),
        ("maxRecordsPerPartition", "8", "task_records_max", 8),
        ("maxOffsetsPerTrigger", "9", "trigger_offsets_max", 9),
        ("minOffsetsPerTrigger", "9", "trigger_offsets_min", 9),
        ("maxTriggerDelay", "2h", "trigger_delay_max_ms", 7_200_000),
        ("kafkaConsumer.pollTimeoutMs", "10", "poll_timeout_ms", 10),
        ("kafkaconsumer.polltimeoutms", "10", "poll_timeout_ms", 10),
        ("fetchOffset.numRetries", "5", "attempts", 5),
        ("fetchOffset.retryIntervalMs", "0", "retry_interval_ms", 0),
        ("mode", "failfast", "columns", CONNECTOR),
        ("groupIdPrefix", "g", "columns", CONNECTOR),
    ],
)
def test_values(name: str, text: str, field: str, value: object) -> None:
    assert getattr(options(**{name: text}), field) == value


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"subscribePattern": " ord.{1,2} "}, Selection(pattern="ord.{1,2}")),
        ({"assign": '{"orders":[0]}'}, Selection(partitions=frozenset([ORDERS]))),
    ],
)
def test_topics(given: dict[str, str], expected: Selection) -> None:
    assert parse_options({"kafka.bootstrap.servers": "127.0.0.1:1", **given}).selection == expected


def test_first_of_several_ways_to_begin() -> None:
    """As in the connector, one time for all partitions overrides times per partition, and these override offsets."""
    given = {"startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"orders":{"0":5}}'}
    assert options(**given).starting == Bound("startingOffsetsByTimestamp", Times(None, {ORDERS: 5}))
    assert options(**given, startingTimestamp="6").starting == Bound("startingTimestamp", Times(6))


@pytest.mark.parametrize(
    ("given", "level"),
    [
        ({}, 0),
        ({"isolationLevel": "READ_COMMITTED"}, 1),
        ({"kafka.isolation.level": "read_committed"}, 1),
        ({"KAFKA.isolation.LEVEL": "read_committed", "isolationlevel": "read_committed"}, 1),
    ],
)
def test_isolation_level(given: dict[str, str], level: int) -> None:
    assert options(**given).client.consumer()._inner._options.isolation_level == level


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"subscribe": ""}, "subscribe='': expected names, separated by commas"),
        ({"assign": '{"orders":[0]}'}, "subscribe='orders': assign is also given; expected only one"),
        ({"startingOffset": "latest"}, "startingOffset='latest': no such option; did you mean startingOffsets?"),
        ({"topics": "orders"}, "topics='orders': no such option; use subscribe to select topics"),
        ({"path": "orders"}, "path='orders': no such option; use subscribe to select topics"),
        ({"bootstrap.servers": "x"}, "bootstrap.servers='x': no such option; did you mean kafka.bootstrap.servers?"),
        ({"xyz": "1"}, "xyz='1': no such option; client options begin with kafka., as in kafka.bootstrap.serv"),
        ({"startingTimestamp": "2026-01-01"}, "startingTimestamp='2026-01-01': expected milliseconds since 1970"),
        (
            {"kafka.ssl.truststore.password": "do not tell"},
            "kafka.ssl.truststore.password=<hidden>: no such option; certificates and keys are PEM; only a private key "
            "has a password: use kafka.ssl.key.password",
        ),
        ({"kafka.isolation.level": "read_committed", "isolationLevel": "read_uncommitted"}, "isolationLevel='read_un"),
        ({"kafka.isolation_level": "read_committed", "isolationLevel": "read_uncommitted"}, "isolationLevel='read_un"),
        (
            {"kafka.fetch.min.byte": "1"},
            "kafka.fetch.min.byte='1': no such option; did you mean kafka.fetch.min.bytes?",
        ),
        ({"minOffsetsPerTrigger": "2", "maxOffsetsPerTrigger": "1"}, "minOffsetsPerTrigger=2: expected at most maxOff"),
        (
            {"startingOffsetsByTimestampStrategy": "x"},
            "startingOffsetsByTimestampStrategy='x': expected error or latest",
        ),
        ({"minPartitions": "0"}, "minPartitions='0': expected 1 to 2147483647"),
        ({"mode": "PERMISSIVE"}, "mode='PERMISSIVE': a consumer cannot continue after a damaged batch"),
        ({"mode": "DROPMALFORMED"}, "mode='DROPMALFORMED': a consumer cannot"),
        ({"extra": "sequence, path"}, "extra='sequence, path': path is only available when files are read"),
        ({"extra": "batchposition"}, "extra='batchposition': batchPosition is only available"),
        ({"extra": "offset"}, "extra='offset': available columns: leaderEpoch, "),
        ({"mode": "x"}, "mode='x': expected PERMISSIVE, DROPMALFORMED, FAILFAST"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay='soon': expected a time, such as"),
        ({"kafka.sasl.passwort": "do not tell"}, "kafka.sasl.passwort=<hidden>: no such option"),
    ],
)
def test_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        options(**given)
    assert str(caught.value).startswith(reason)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "subscribe=None: one of subscribe, subscribePattern, assign is required"),
        ({"assign": "{}"}, "assign='{}': expected at least one partition"),
        ({"subscribePattern": " "}, "subscribePattern=' ': expected a regular expression"),
        ({"subscribePattern": "("}, "subscribePattern='(': not a regular expression: "),
    ],
)
def test_refused_topics(given: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_options({"kafka.bootstrap.servers": "127.0.0.1:1", **given})
    assert str(caught.value).startswith(reason)


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({}, None),
        ({"startingOffsets": "earliest", "endingOffsets": "latest"}, None),
        ({"startingOffsets": '{"orders":{"0":-2}}', "endingOffsets": '{"orders":{"0":-1}}'}, None),
        ({"startingTimestamp": "0", "endingTimestamp": "1"}, None),
        ({"startingOffsets": "latest"}, "startingOffsets='latest'"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, """startingOffsets='{"orders":{"0":-1}}'"""),
        ({"endingOffsets": "earliest"}, "endingOffsets='earliest'"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, """endingOffsets='{"orders":{"0":-2}}'"""),
    ],
)
def test_batch(given: dict[str, str], refused: str | None) -> None:
    if refused is None:
        options(**given).check_batch()
        return
    with pytest.raises(ConfigurationError, match=refused):
        options(**given).check_batch()


def test_limits_of_streams_in_a_batch_query(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kafkawire.spark"):
        options(maxOffsetsPerTrigger="5", maxTriggerDelay="1s").check_batch()
    assert caplog.messages == [
        "maxOffsetsPerTrigger=5 is only for streams and has no effect here",
        "maxTriggerDelay=1000 is only for streams and has no effect here",
    ]


@pytest.mark.parametrize(
    "given", [{"endingOffsets": "latest"}, {"endingTimestamp": "5"}, {"endingOffsetsByTimestamp": '{"orders":{"0":5}}'}]
)
def test_stream(given: dict[str, str]) -> None:
    options(startingOffsets="latest").check_stream()
    with pytest.raises(ConfigurationError, match="only batch queries support this option"):
        options(**given).check_stream()


def test_secrets() -> None:
    login = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.username": "me"}
    assert "do not tell" not in repr(options(**login, **{"kafka.sasl.password": "do not tell"}))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("Offsets", "OffsetsByTimestamp", "Timestamp"), "Timestamp"),
        (("Offsets", "OffsetsByTimestamp"), "OffsetsByTimestamp"),
        (("Offsets", "Timestamp"), "Timestamp"),
    ],
)
def test_the_first_of_several_bounds_counts(given: tuple[str, ...], expected: str) -> None:
    texts = {"Offsets": '{"orders":{"0":1}}', "OffsetsByTimestamp": '{"orders":{"0":2}}', "Timestamp": "3"}
    found = options(**{f"{side}{name}": texts[name] for side in ("starting", "ending") for name in given})
    assert found.starting is not None
    assert found.ending is not None
    assert (found.starting.option, found.ending.option) == (f"starting{expected}", f"ending{expected}")
