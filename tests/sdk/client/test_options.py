"""Options are found by both of their names, and what is wrong with one is said with its name, value and limit.

Method: tables of what is accepted and what is refused; the dotted names are compared with the options that exist.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.client.options import AdminOptions, ConsumerOptions, ProducerOptions, read_options
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.records import Compression


def test_defaults() -> None:
    options = read_options(ProducerOptions, "a:1,b", {})
    assert [str(address) for address in options.bootstrap_servers] == ["a:1", "b:9092"]
    assert (options.acks, options.linger_ms, options.max_in_flight) == (-1, 5, 5)
    assert options.compression is Compression.NONE


@pytest.mark.parametrize(
    ("name", "value", "attribute", "expected"),
    [
        ("linger_ms", 0, "linger_ms", 0),
        ("linger.ms", 7, "linger_ms", 7),
        ("acks", "all", "acks", -1),
        ("acks", 1, "acks", 1),
        ("acks", "0", "acks", 0),
        ("compression", "lz4", "compression", Compression.LZ4),
        ("compression.type", Compression.ZSTD, "compression", Compression.ZSTD),
        ("max.in.flight.requests.per.connection", 1, "max_in_flight", 1),
        ("client.id", "me", "client_id", "me"),
    ],
)
def test_accepted_by_a_producer(name: str, value: object, attribute: str, expected: object) -> None:
    assert getattr(read_options(ProducerOptions, "a", {name: value}), attribute) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lingerms": 1}, "lingerms=1: no such option; did you mean linger_ms"),
        ({"linger.sm": 1}, "did you mean linger.ms"),
        ({"group_id": "g"}, "group_id='g': no such option"),
        ({"xyzzy": 1}, "xyzzy=1: no such option$"),
        ({"linger_ms": -1}, "linger_ms=-1: expected 0 to 2147483647"),
        ({"linger_ms": "5"}, "linger_ms='5': expected an integer"),
        ({"linger_ms": True}, "linger_ms=True: expected an integer"),
        ({"batch_size": 2**30}, "batch_size=1073741824: expected 128 to 16777216"),
        ({"linger_ms": 1, "linger.ms": 1}, "linger.ms=1: linger_ms was given already"),
        ({"acks": 2}, 'acks=2: expected "all", 1 or 0'),
        ({"acks": True}, "acks=True"),
        ({"compression": "lzma"}, "compression='lzma': expected one of none, gzip, snappy, lz4, zstd"),
        ({"partitioner": "murmur2"}, "expected a function of key and number of partitions"),
        ({"client_id": 5}, "client_id=5: expected a string"),
        ({"bootstrap.servers": "b"}, "bootstrap_servers was given already"),
    ],
)
def test_refused_by_a_producer(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        read_options(ProducerOptions, "a", given)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"auto_offset_reset": "smallest"}, "expected one of latest, earliest, none"),
        ({"enable_auto_commit": "yes"}, "enable_auto_commit='yes': expected True or False"),
        ({"assignors": ()}, "expected names of assignors"),
        ({"group_id": 5}, "group_id=5: expected a string"),
    ],
)
def test_refused_by_a_consumer(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_options(ConsumerOptions, "a", given)


def test_consumer_assignors() -> None:
    options = read_options(ConsumerOptions, "a", {"partition.assignment.strategy": "range, sticky"})
    assert options.assignors == ("range", "sticky")


def test_bootstrap_servers_may_stand_among_the_options() -> None:
    options = read_options(AdminOptions, None, {"bootstrap.servers": ["a:1"]})
    assert options.bootstrap_servers == (("a", 1),)


@pytest.mark.parametrize("given", [{}, {"bootstrap_servers": ""}, {"bootstrap_servers": 9092}])
def test_without_a_broker_to_ask(given: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="bootstrap_servers="):
        read_options(AdminOptions, None, given)


def test_every_dotted_name_is_an_option_and_nearly_every_option_has_one() -> None:
    for kind in (ProducerOptions, ConsumerOptions):
        assert kind.OPTIONS.keys() - set(kind.KAFKA_NAMES.values()) == {
            "max_frame_bytes",  # a limit of its own
            "sasl_aws_region",  # the mechanism is Amazon's
            "sasl_oauthbearer_extensions",  # in Kafka, parts of sasl.jaas.config
            "sasl_oauthbearer_token",
            "sasl_scram_tokenauth",
            "ssl_context",  # Python's
        }
