"""Option values are accepted in every form that users may write; the error for a wrong value says what was expected.

`test_options.py` tests what clients do with the values.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafkawire.sdk.client.option_values import (
    ACKS,
    COMPRESSIONS,
    ISOLATION_LEVELS,
    name_or_none,
    read_acks,
    read_compression,
    read_isolation_level,
    read_metrics_reporter,
    read_optional_flag,
)
from kafkawire.sdk.client.options import AdminOptions, ClientOptions, ConsumerOptions, ProducerOptions, read_options
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.groups.assignors.range import RangeAssignor
from kafkawire.sdk.transport.wire import Address


def test_members_and_their_names() -> None:
    for name, member in COMPRESSIONS.items():
        assert read_compression("compression", name) is read_compression("compression", member) is member
    for name, level in ISOLATION_LEVELS.items():
        assert read_isolation_level("isolation_level", name) is read_isolation_level("isolation_level", level) is level
    assert [read_acks("acks", given) for given in ACKS] == list(ACKS.values())


def options_of(servers: str | list[str], **given: object) -> ClientOptions:
    return read_options(AdminOptions, servers, given)


def test_servers_with_their_protocol() -> None:
    """Addresses may be written in the form of Kafka's listeners, `SASL_SSL://host:port`."""
    here = [Address("a", 1), Address("::1", 9092)]
    assert [*options_of("PLAINTEXT://a:1, plaintext://[::1]").bootstrap_servers] == here
    assert [*options_of(["PLAINTEXT://a:1", "[::1]:9092"]).bootstrap_servers] == here
    assert [*options_of("SSL://a:1,[::1]", security_protocol="SSL").bootstrap_servers] == here
    given = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "u", "sasl_password": "p"}
    assert [*options_of("SASL_SSL://a:1,[::1]", **given).bootstrap_servers] == here


@pytest.mark.parametrize(
    ("servers", "reason"),
    [
        ("SSL://a:1", 'SSL:// contradicts security_protocol="PLAINTEXT"; set that to "SSL"'),
        ("a:1,sasl_ssl://b:1", 'SASL_SSL:// contradicts security_protocol="PLAINTEXT"; set that to "SASL_SSL"'),
        (
            "http://a:1",
            "http:// is not a Kafka protocol; expected one of PLAINTEXT://, SSL://, SASL_PLAINTEXT://, SASL_SSL://",
        ),
        ("kafka://a:1", "kafka:// is not a Kafka protocol"),
        ("PLAINTEXT://", "expected at least one host:port"),
        ("PLAINTEXT://a:1/path", "port '1/path' is not a number"),
        ("PLAINTEXT://SSL://a:1", "the port is missing|expected host:port|is not a number"),
    ],
)
def test_servers_with_another_protocol(servers: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^bootstrap_servers=.*(?:{reason})"):
        options_of(servers)


@pytest.mark.parametrize("level", ["read", 1, None, ["read_committed"]])
def test_no_isolation_level(level: object) -> None:
    with pytest.raises(ConfigurationError, match="expected one of read_uncommitted, read_committed"):
        read_isolation_level("isolation_level", level)


def test_what_may_be_left_open() -> None:
    assert [read_optional_flag("option", given) for given in (True, False, None)] == [True, False, None]
    for wrong in (1, "true"):
        with pytest.raises(ConfigurationError, match="expected True, False or None"):
            read_optional_flag("option", wrong)
    for reporter in (print, None):
        assert read_metrics_reporter("option", reporter) is reporter
    with pytest.raises(ConfigurationError, match="expected a function that takes a mapping"):
        read_metrics_reporter("option", "print")


def test_names_that_may_be_left_out() -> None:
    read = name_or_none("do without")
    assert (read("option", "given"), read("option", None)) == ("given", None)
    with pytest.raises(ConfigurationError, match="expected a name; leave the option out to do without"):
        read("option", "")


@pytest.mark.parametrize(
    ("kind", "name", "given"),
    [
        (AdminOptions, "client_id", {}),
        (ProducerOptions, "transactional_id", {}),
        (ConsumerOptions, "group_id", {}),
        (ConsumerOptions, "client_rack", {}),
        (ConsumerOptions, "group_remote_assignor", {"group_id": "g", "group_protocol": "consumer"}),
    ],
)
def test_text_that_goes_into_requests(kind: type[ClientOptions], name: str, given: dict[str, object]) -> None:
    longest = "é" * 16_383 + "a"
    assert getattr(read_options(kind, "host:1", {**given, name: longest}), name) == longest
    with pytest.raises(ConfigurationError) as caught:
        read_options(kind, "host:1", {**given, name: longest + "a"})
    assert str(caught.value) == f"{name}='{'é' * 30}…': takes 32768 bytes as UTF-8; the limit is 32767"
    with pytest.raises(ConfigurationError) as caught:
        read_options(kind, "host:1", {**given, name: "a\ud800"})
    assert str(caught.value) == f"{name}='a\\ud800': '\\ud800' cannot be encoded as UTF-8: it is a surrogate"
    assert str(caught.value).isascii()


def test_names_of_assignors_go_into_requests() -> None:
    class Unspeakable(RangeAssignor):
        name = "\ud800"

    with pytest.raises(ConfigurationError, match="cannot be encoded as UTF-8"):
        read_options(ConsumerOptions, "host:1", {"group_id": "g", "assignors": [Unspeakable()]})


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        ("earliest", "earliest"),
        ("by_duration:P1DT1H1M1.5S", 90_061_500),
        (timedelta(days=1, milliseconds=5), 86_400_005),
        (timedelta(), 0),
    ],
)
def test_reset_policies(policy: str | timedelta, kept: str | int) -> None:
    assert read_options(ConsumerOptions, "a", {"auto_offset_reset": policy}).auto_offset_reset == kept


@pytest.mark.parametrize(
    ("kind", "name", "value", "meant"),
    [
        (ProducerOptions, "acks", "al", "all"),
        (ProducerOptions, "compression", "zstdd", "zstd"),
        (ProducerOptions, "compression", "GZIP", "gzip"),
        (ProducerOptions, "partitioner", "roundrobin", "round_robin"),
        (ProducerOptions, "security_protocol", "ssl", "SSL"),
        (ProducerOptions, "security_protocol", "SASL_TLS", "SASL_SSL"),
        (ProducerOptions, "sasl_mechanism", "SCRAM-SHA256", "SCRAM-SHA-256"),
        (ProducerOptions, "io", "treads", "thread"),
        (ProducerOptions, "ssl_endpoint_identification_algorithm", "HTTPS", "https"),
        (ConsumerOptions, "auto_offset_reset", "earlist", "earliest"),
        (ConsumerOptions, "auto_offset_reset", "largest", "latest"),
        (ConsumerOptions, "auto_offset_reset", "error", "none"),
        (ConsumerOptions, "assignors", "sticki", "sticky"),
        (ConsumerOptions, "assignors", ["range", "cooperativesticky"], "cooperative-sticky"),
        (ConsumerOptions, "group_protocol", "clasic", "classic"),
        (ConsumerOptions, "isolation_level", "read_comitted", "read_committed"),
    ],
)
def test_a_misspelt_value_is_answered_with_the_nearest(
    kind: type[ClientOptions], name: str, value: object, meant: str
) -> None:
    with pytest.raises(ConfigurationError, match=rf"expected .*; did you mean {meant}\?$"):
        read_options(kind, "a:1", {name: value})


@pytest.mark.parametrize(("name", "value"), [("compression", "x"), ("compression", 5), ("io", ""), ("acks", "quorum")])
def test_what_is_near_nothing_is_answered_with_the_list_alone(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match="expected") as caught:
        read_options(ProducerOptions, "a:1", {name: value})
    assert "did you mean" not in str(caught.value)
