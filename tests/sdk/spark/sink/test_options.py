"""Options are parsed as Spark passes them; errors give their name, their value and the allowed values."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.client.options import ProducerOptions
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.spark.sink.options import WriteOptions, connect_limit_ms, parse_options

SERVERS = "broker:9092"


def options(**given: str) -> WriteOptions:
    return parse_options({"kafka.bootstrap.servers": SERVERS, **given})


def test_defaults() -> None:
    assert options() == WriteOptions({"bootstrap_servers": SERVERS, "enable_idempotence": True})


def test_an_option_of_readers(caplog: pytest.LogCaptureFixture) -> None:
    """The connector ignores this option too."""
    assert options(includeHeaders="true") == options()
    assert "includeHeaders=true is for reading, and has no effect here" in caplog.text


def test_how_long_it_is_tried_to_connect() -> None:
    assert connect_limit_ms(options().producer) == 120_000
    assert connect_limit_ms(options(**{"kafka.delivery.timeout.ms": "50000"}).producer) == 50_000


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("TOPIC", " out ", "topic", "out"),
        ("dedupeheaders", "TRUE", "has_row_ids", True),
        ("transactionalIdPrefix", "w", "transactional_id_prefix", "w"),
        ("checkpointLocation", "/x", "topic", None),
    ],
)
def test_values(name: str, text: str, field: str, value: object) -> None:
    assert getattr(options(**{name: text}), field) == value


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"Kafka.Linger.Ms": "7"}, {"linger_ms": 7, "enable_idempotence": True}),
        ({"kafka.linger_ms": "7"}, {"linger_ms": 7, "enable_idempotence": True}),
        ({"kafka.acks": "1", "kafka.enable.idempotence": "false"}, {"acks": 1, "enable_idempotence": False}),
        ({"kafka.acks": "1", "kafka.enable_idempotence": "false"}, {"acks": 1, "enable_idempotence": False}),
        ({"transactionalIdPrefix": "w"}, {"transaction_timeout_ms": 900_000}),
        (
            {"transactionalIdPrefix": "w", "kafka.transaction.timeout.ms": "9000"},
            {"transaction_timeout_ms": 9000},
        ),
    ],
)
def test_of_the_producer(given: dict[str, str], expected: dict[str, Any]) -> None:
    assert options(**given).producer == {"bootstrap_servers": SERVERS, **expected}


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("topics", "a", "no such option; use topic to give the topic for all rows"),
        ("subscribe", "a", "no such option; use topic to give the topic for all rows"),
        ("linger.ms", "7", "did you mean kafka.linger.ms?"),
        ("xyz", "7", "producer options begin with kafka."),
        ("topic", "a/b", "topic='a/b': "),
        ("dedupeHeaders", "yes", "expected true or false"),
        ("transactionalIdPrefix", "", "leave it out to write without transactions"),
        ("path", "/x", "path='/x': rows are written to topics, not to a path"),
        ("kafka.key.serializer", "x", "keys and values are columns"),
        ("kafka.transactional.id", "x", "use transactionalIdPrefix"),
        ("kafka.linger.ms", "x", "expected an integer"),
        ("kafka.linger", "7", "no such option"),
        ("kafka.transaction.timeout.ms", "7", "has no effect without transactionalIdPrefix"),
    ],
)
def test_refused(name: str, text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        options(**{name: text})
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"kafka.linger.ms": "x"}, "kafka.linger.ms='x': expected an integer"),
        ({"kafka.linger_ms": "x"}, "kafka.linger.ms='x': expected an integer"),
        ({"kafka.linger": "7"}, "kafka.linger='7': no such option"),
        (
            {"kafka.acks": "1", "kafka.enable.idempotence": "true"},
            "kafka.enable.idempotence=True: idempotence requires kafka.acks",
        ),
        ({"kafka.acks": "1", "kafka.linger.ms": "x"}, "kafka.linger.ms='x': expected an integer"),
        ({"kafka.acks": "2"}, "kafka.acks=2: expected"),
        (
            {"kafka.acks": "1", "transactionalIdPrefix": "w"},
            "transactionalIdPrefix='w': idempotence requires kafka.acks",
        ),
        ({"kafka.sasl.jaas.config": "x"}, "kafka.sasl.jaas.config=<hidden>: expected PlainLoginModule"),
    ],
)
def test_refused_options_are_named_as_they_were_given(given: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        options(**given)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("acks", "1", 'idempotence requires acks="all", got 1'),
        ("acks", "0", 'idempotence requires acks="all", got 0'),
        ("retries", "0", "idempotence requires retries from 1 to 2147483647, got 0"),
        ("max.in.flight.requests.per.connection", "10", "idempotence requires max_in_flight of at most 5, got 10"),
    ],
)
def test_options_that_rule_out_idempotence(caplog: pytest.LogCaptureFixture, name: str, text: str, reason: str) -> None:
    """The producer works without idempotence, and logs one line about this; transactions do not work without it."""
    given = {f"kafka.{name}": text}
    assert options(**given).producer["enable_idempotence"] is False
    caplog.clear()
    assert options(**{f"kafka.{ProducerOptions.KAFKA_NAMES[name]}": text}).producer["enable_idempotence"] is False
    (line,) = [each for each in caplog.records if each.levelname == "WARNING"]
    assert line.name == "kafkawire.spark"
    assert line.getMessage() == f"idempotence is off, and records may be stored twice: {reason}"
    with pytest.raises(ConfigurationError, match="transactionalIdPrefix='w': idempotence requires"):
        options(**given, transactionalIdPrefix="w")


def test_a_login_as_of_javas_clients() -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
    given = {"kafka.sasl.jaas.config": login, "kafka.sasl.mechanism": "PLAIN", "kafka.security.protocol": "SASL_SSL"}
    producer = options(**given).producer
    assert (producer["sasl_username"], producer["sasl_password"]) == ("u", "p")
    assert not [name for name in producer if "jaas" in name]


def test_servers_are_needed() -> None:
    given: dict[str, Any] = {"topic": "out"}
    with pytest.raises(ConfigurationError, match=r"kafka\.bootstrap\.servers=None: required"):
        parse_options(given)
