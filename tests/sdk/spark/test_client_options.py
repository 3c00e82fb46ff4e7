"""The clients of sources and sinks get one name for each option, whichever spelling a query uses."""

from __future__ import annotations

import pytest

from kafkawire.sdk.client.options import ConsumerOptions, ProducerOptions
from kafkawire.sdk.errors import ConfigurationError

pytest.importorskip("pyarrow")

from kafkawire.sdk.spark.client_options import REFUSED_OF_READERS, REFUSED_OF_WRITERS, read_client_options

SERVERS = {"bootstrap.servers": "a:1"}
KINDS = {"reader": (ConsumerOptions, REFUSED_OF_READERS), "writer": (ProducerOptions, REFUSED_OF_WRITERS)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"metadata.max.age.ms": "7"}, {"metadata_max_age_ms": 7}),
        ({"metadata_max_age_ms": "7"}, {"metadata_max_age_ms": 7}),
        ({"metadata.max.age.ms": " 7 "}, {"metadata_max_age_ms": 7}),
        ({"metadata.max.age.ms": "x"}, {"metadata_max_age_ms": "x"}),
        ({"client.id": "7"}, {"client_id": "7"}),
        ({"security.protocol": "plaintext"}, {"security_protocol": "PLAINTEXT"}),
        ({"security_protocol": "Sasl_Ssl"}, {"security_protocol": "SASL_SSL"}),
        ({"ssl.endpoint.identification.algorithm": "HTTPS"}, {"ssl_endpoint_identification_algorithm": "https"}),
    ],
)
def test_values(kind: str, given: dict[str, str], expected: dict[str, object]) -> None:
    """A value that cannot be parsed remains text, which the client refuses."""
    assert read_client_options({**SERVERS, **given}, *KINDS[kind]) == {"bootstrap_servers": "a:1", **expected}


def test_values_as_java_takes_them() -> None:
    """The Java clients insist on the letter case of all other values, and so do ours."""
    for kind, option, text in [("writer", "compression", "ZSTD"), ("reader", "isolation_level", "READ_COMMITTED")]:
        options, refused = KINDS[kind]
        assert read_client_options({**SERVERS, option: text}, options, refused)[option] == text
        with pytest.raises(ConfigurationError, match=f"{option}='{text}': expected one of "):
            options.read({**SERVERS, option: text}.items())


@pytest.mark.parametrize("kind", KINDS)
def test_refused(kind: str) -> None:
    """Both spellings of each refused option raise an error whose reason makes sense to Spark users."""
    options, refused = KINDS[kind]
    for name, reason in refused.items():
        for spelling in {name, name.replace("_", ".")}:
            with pytest.raises(ConfigurationError) as caught:
                read_client_options({**SERVERS, spelling: "x"}, options, refused)
            assert str(caught.value) == str(ConfigurationError(f"kafka.{spelling}", "x", reason))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "kafka.bootstrap.servers=None: required, in the form host:port,host:port"),
        ({**SERVERS, "bootstrap_servers": "b:1"}, "kafka.bootstrap_servers='b:1': bootstrap_servers is also given"),
        ({**SERVERS, "client.ids": "x"}, "kafka.client.ids='x': no such option; did you mean kafka.client.id?"),
        ({**SERVERS, "sasl.jaas.config": "x"}, "kafka.sasl.jaas.config=<hidden>: expected PlainLoginModule"),
    ],
)
def test_not_usable(kind: str, given: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_client_options(given, *KINDS[kind])
    assert str(caught.value).startswith(reason)
