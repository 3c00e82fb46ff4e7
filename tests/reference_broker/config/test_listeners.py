"""Listeners are parsed as in Kafka, and each advertises the right address.

Method: tables of options with the listeners, or the error, that they produce.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.config.listeners import read_listeners
from kafkawire.reference_broker.config.options import read_options
from kafkawire.sdk.errors import ConfigurationError


def listeners(host="127.0.0.1", port=9092, **options):
    found = read_listeners(read_options(options), host, port, "this-machine")
    return [(name, tuple(bind), tuple(advertised)) for name, bind, advertised in found]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [("PLAINTEXT", ("127.0.0.1", 9092), ("127.0.0.1", 0))]),
        ({"host": "0.0.0.0"}, [("PLAINTEXT", ("0.0.0.0", 9092), ("this-machine", 0))]),
        ({"host": "::1"}, [("PLAINTEXT", ("::1", 9092), ("::1", 0))]),
        ({"host": "", "advertised_host": "kafka"}, [("PLAINTEXT", ("", 9092), ("kafka", 0))]),
        ({"advertised_listeners": "plaintext://a:1"}, [("PLAINTEXT", ("127.0.0.1", 9092), ("a", 1))]),
        (
            {
                "listeners": "INTERNAL://:9093, EXTERNAL://0.0.0.0:0,SIX://[::1]:9094",
                "advertised_listeners": "EXTERNAL://kafka.example.com:443",
                "listener_security_protocol_map": "INTERNAL:PLAINTEXT,EXTERNAL:plaintext,OTHER:SASL_SSL",
            },
            [
                ("INTERNAL", ("", 9093), ("this-machine", 0)),
                ("EXTERNAL", ("0.0.0.0", 0), ("kafka.example.com", 443)),
                ("SIX", ("::1", 9094), ("::1", 0)),
            ],
        ),
    ],
)
def test_listeners(options, expected):
    assert listeners(**options) == expected


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"listeners": "a:9092"}, "'a:9092' is not NAME://host:port"),
        ({"listeners": "A://a"}, "'A://a' is not NAME://host:port"),
        ({"listeners": "A://a:70000"}, "port 70000 is outside 0 to 65535"),
        ({"listeners": "A://a:1,a://b:2"}, "A appears twice"),
        ({"listeners": "A://a:1,B://a:1"}, "two listeners have the address a:1"),
        ({"listeners": "SSL://a:1"}, "listener SSL needs SSL, but only PLAINTEXT is supported"),
        (
            {"listeners": "A://a:1", "listener_security_protocol_map": "A:SASL_PLAINTEXT"},
            "listener A needs SASL_PLAINTEXT, but only PLAINTEXT is supported",
        ),
        ({"listener_security_protocol_map": "A"}, "'A' is not NAME:PROTOCOL"),
        ({"listener_security_protocol_map": "A:HTTP"}, "'A:HTTP' is not NAME:PROTOCOL"),
        ({"advertised_listeners": "B://b:1"}, "there is no listener B, only PLAINTEXT"),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:1"}, "clients cannot connect to 0.0.0.0:1"),
    ],
)
def test_refused(options, reason):
    name, value = list(options.items())[-1]
    with pytest.raises(ConfigurationError, match=reason.replace(".", r"\.").replace("[", r"\[")) as refused:
        listeners(**options)
    assert refused.value.option == name.replace("_", ".")
    assert f"{value.rpartition('/')[2]}': " in str(refused.value), "what was given, or its last address"


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"listeners": "SSL://a:1"}, "listeners"),
        (
            {"listeners": "A://a:1", "listener_security_protocol_map": "A:SASL_PLAINTEXT"},
            "listener.security.protocol.map",
        ),
    ],
)
def test_the_option_that_asks_for_a_protocol_is_named(options, option):
    with pytest.raises(ConfigurationError) as refused:
        listeners(**options)
    assert refused.value.option == option
