"""Values are parsed and refused as in Apache Kafka, with its messages.

Method: check tables of values, many of which `tests/kafka/` also sends to a real Kafka; topic configurations have their
own module, `test_topic_configs.py`.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.config.config_values import (
    InvalidConfig,
    check_value,
    entries_of,
    parse_decimal,
    parse_integer,
    shown_value,
    trimmed,
)
from kafkawire.sdk.protocol.tables.configs import BROKER_CONFIGS, GROUP_CONFIGS, TOPIC_CONFIGS, ConfigKey
from kafkawire.sdk.protocol.tables.enums import ConfigType

KEYS = {**TOPIC_CONFIGS, **GROUP_CONFIGS, **BROKER_CONFIGS}
RESET = (
    "Invalid value `{0}` for configuration share.auto.offset.reset. The value must be either 'earliest', 'latest' or "
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share.auto.offset.reset", "latest"),
        ("share.auto.offset.reset", "by_duration:PT1H"),
        ("share.auto.offset.reset", "by_duration:P1DT2H3M4.5S"),
        ("share.auto.offset.reset", "by_duration:pt1h-5m"),
        ("group.consumer.migration.policy", "upgrade"),
        ("group.consumer.migration.policy", "UPGRADE"),
        ("offsets.topic.replication.factor", "32767"),
        ("num.io.threads", "٣"),
        ("ssl.keystore.password", "anything"),
        ("log.flush.interval.ms", "-9223372036854775808"),
    ],
)
def test_taken(name: str, value: str) -> None:
    check_value(KEYS[name], value)


@pytest.mark.parametrize(
    ("name", "value", "shown", "reason"),
    [
        ("offsets.topic.replication.factor", "32768", "32768", "Not a number of type SHORT"),
        ("num.io.threads", "2147483648", "2147483648", "Not a number of type INT"),
        ("num.io.threads", "9" * 5000, "9" * 5000, "Not a number of type INT"),
        ("num.io.threads", " +0 ", "0", "Value must be at least 1"),
        ("log.cleaner.min.cleanable.ratio", "1e3", "1000.0", "Value must be no more than 1"),
        ("log.cleaner.min.cleanable.ratio", "Infinity", "Infinity", "Value must be no more than 1"),
        ("log.cleaner.min.cleanable.ratio", "-Infinity", "-Infinity", "Value must be at least 0"),
        ("log.message.timestamp.type", " gzip ", "gzip", "String must be one of: CreateTime, LogAppendTime"),
        ("group.consumer.migration.policy", "up", "up",
         "String must be one of (case insensitive): DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL"),
        ("share.auto.offset.reset", "x", "x", RESET.format("x") + "of the format 'by_duration:<PnDTnHnMn.nS>'."),
        ("share.auto.offset.reset", "Earliest", "Earliest",
         RESET.format("Earliest") + "of the format 'by_duration:<PnDTnHnMn.nS>'."),
        ("share.auto.offset.reset", "BY_DURATION:PT1H", "BY_DURATION:PT1H",
         RESET.format("BY_DURATION:PT1H") + "of the format 'by_duration:<PnDTnHnMn.nS>'."),
        ("share.auto.offset.reset", "by_duration:P-1D", "by_duration:P-1D",
         RESET.format("by_duration:P-1D") + "of the format 'by_duration:<PnDTnHnMn.nS>'."),
        ("share.auto.offset.reset", "by_duration:PT", "by_duration:PT",
         RESET.format("by_duration:PT") + "of the format 'by_duration:<PnDTnHnMn.nS>'."),
        ("auto.create.topics.enable", "yes", "yes", "Expected value to be either true or false"),
    ],
)  # fmt: skip
def test_refused(name: str, value: str, shown: str, reason: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        check_value(KEYS[name], value)
    assert str(caught.value) == f"Invalid value {shown} for configuration {name}: {reason}"


def test_text_may_not_be_empty() -> None:
    with pytest.raises(InvalidConfig, match="String must be non-empty"):
        check_value(ConfigKey("x", ConfigType.STRING, rule="not_empty"), " ")


@pytest.mark.parametrize("name", [name for name, key in KEYS.items() if key.default and key.default not in ("", None)])
def test_every_default_is_taken(name: str) -> None:
    check_value(KEYS[name], KEYS[name].default or "")


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("preallocate", " TRUE ", "true"),
        ("retention.ms", " +07\t", "7"),
        ("retention.ms", "soon", "soon"),
        ("min.cleanable.dirty.ratio", "5e-1", "0.5"),
        ("min.cleanable.dirty.ratio", "1", "1.0"),
        ("min.cleanable.dirty.ratio", "x", "x"),
        ("log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308", "1.7976931348623157E308"),
        ("cleanup.policy", " compact , delete,compact", "compact,delete"),
        ("compression.type", " gzip ", "gzip"),
    ],
)
def test_values_are_shown_as_java_writes_them(name: str, value: str, shown: str) -> None:
    assert shown_value(KEYS[name], value) == shown


def test_parts() -> None:
    assert trimmed("\x00 a b\n") == "a b"
    assert entries_of(" a , b,,c ") == ["a", "b", "", "c"]
    assert entries_of(" \t") == []
    assert (parse_integer("-07"), parse_integer("1_0"), parse_integer("")) == (-7, None, None)
    assert (parse_decimal("0x1p-1"), parse_decimal("1."), parse_decimal("nan")) == (0.5, 1.0, None)
