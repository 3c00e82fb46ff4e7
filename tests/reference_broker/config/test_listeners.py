"""Listeners are parsed as in Kafka and advertise the right addresses, and brokers use those configured for them.

Method: check tables of options, and the listeners, roles or errors that they produce.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.config.listeners import ListenerRoles, read_listener_roles, read_listeners
from kafkawire.reference_broker.config.options import read_options
from kafkawire.sdk.errors import ConfigurationError


def listeners(host="127.0.0.1", port=9092, **options):
    found = read_listeners(read_options(options), host, port, "this-machine")
    return [(each.name, tuple(each.bind), tuple(each.advertised)) for each in found]


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
                "listener_security_protocol_map": "INTERNAL:PLAINTEXT, external : plaintext ,SIX:PLAINTEXT,X:SASL_SSL",
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
        ({"listeners": "a:9092"}, "'a:9092' is not of the form NAME://host:port"),
        ({"listeners": "A://a"}, "'A://a' is not of the form NAME://host:port"),
        ({"listeners": "A://a:70000"}, "port 70000 is outside 0 to 65535"),
        ({"listeners": "A://a:1,a://b:2"}, "the listener A appears more than once"),
        ({"listeners": "A://a:1,B://a:1"}, "two listeners have the address a:1"),
        ({"listener_security_protocol_map": "A"}, "'A' is not of the form NAME:PROTOCOL with one of PLAINTEXT, SSL"),
        ({"listener_security_protocol_map": "A:HTTP"}, "'A:HTTP' is not of the form NAME:PROTOCOL"),
        ({"advertised_listeners": "B://b:1"}, "unknown listener B; configured listeners: PLAINTEXT"),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:1"}, "clients cannot connect to 0.0.0.0:1"),
    ],
)
def test_refused(options, reason):
    name, value = list(options.items())[-1]
    with pytest.raises(ConfigurationError, match=reason.replace(".", r"\.").replace("[", r"\[")) as refused:
        listeners(**options)
    assert refused.value.option == name.replace("_", ".")
    assert f"{value.rpartition('/')[2]}': " in str(refused.value), (
        "the error shows the given value, or its last address"
    )


MAP = ("PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_SSL:SASL_SSL", "SASL_PLAINTEXT:SASL_SSL", "a:ssl", "B:SSL")


def test_protocols():
    options = {
        "listeners": "PLAINTEXT://a:1,SSL://a:2,SASL_SSL://a:3,SASL_PLAINTEXT://a:4,A://a:5,B://a:6",
        "listener_security_protocol_map": ",".join(MAP),
    }
    found = read_listeners(read_options(options), "", 0, "this-machine")
    assert [each.protocol for each in found] == ["PLAINTEXT", "SSL", "SASL_SSL", "SASL_SSL", "SSL", "SSL"]
    assert [(each.has_tls, each.has_login) for each in found[:3]] == [(False, False), (True, False), (True, True)]


def test_the_names_of_the_protocols_need_no_map():
    options = read_options({"listeners": "SSL://a:2,SASL_SSL://a:3,sasl_plaintext://a:4,PLAINTEXT://a:1"})
    found = read_listeners(options, "", 0, "this-machine")
    assert [each.protocol for each in found] == ["SSL", "SASL_SSL", "SASL_PLAINTEXT", "PLAINTEXT"]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"listeners": "TLS://a:1"}, "TLS"),
        ({"listeners": "SECRET://a:1", "listener_security_protocol_map": "SECRE:SSL"}, "SECRET"),
        ({"listeners": "SSL://a:1,A://a:2", "listener_security_protocol_map": "A:SSL"}, "SSL"),
        ({"listener_security_protocol_map": "A:SSL"}, "PLAINTEXT"),
        ({"listener_security_protocol_map": ""}, "PLAINTEXT"),
    ],
)
def test_a_listener_without_a_protocol(given, name):
    """It must not be open to everyone because of a typing error: as in Kafka, a map replaces the default."""
    text = f"no security protocol is defined for the listener {name}; listener.security.protocol.map needs an entry"
    with pytest.raises(ConfigurationError, match=text) as refused:
        listeners(**given)
    map_is_given = "listener_security_protocol_map" in given
    assert refused.value.option == ("listener.security.protocol.map" if map_is_given else "listeners")


INTER, SECURITY, CONTROL = (
    "inter_broker_listener_name",
    "security_inter_broker_protocol",
    "control_plane_listener_name",
)


@pytest.mark.parametrize(
    ("options", "expected", "controller"),
    [
        ({}, ListenerRoles("PLAINTEXT"), "PLAINTEXT"),
        ({INTER: "a"}, ListenerRoles("A"), "A"),
        ({SECURITY: "PLAINTEXT"}, ListenerRoles("PLAINTEXT"), "PLAINTEXT"),
        ({SECURITY: "Sasl_Ssl"}, ListenerRoles("SASL_SSL"), "SASL_SSL"),
        ({SECURITY: "plaintext", CONTROL: "b"}, ListenerRoles("PLAINTEXT", "B"), "B"),
        ({INTER: "A", CONTROL: "PLAINTEXT"}, ListenerRoles("A", "PLAINTEXT"), "PLAINTEXT"),
    ],
)
def test_roles(options, expected, controller):
    found = read_listener_roles(["PLAINTEXT", "A", "B", "SASL_SSL"], **options)
    assert found == expected
    assert found.controller == controller


@pytest.mark.parametrize(
    ("names", "options", "option", "reason"),
    [
        (["A"], {INTER: "A", SECURITY: "PLAINTEXT"}, INTER, "cannot be combined with security.inter.broker.protocol"),
        (["A", "B"], {}, SECURITY, "unknown listener PLAINTEXT; configured listeners: A, B"),
        (["A", "B"], {INTER: "c"}, INTER, "unknown listener C; configured listeners: A, B"),
        (["A"], {SECURITY: "SSL"}, SECURITY, "unknown listener SSL; configured listeners: A"),
        (["HTTP"], {SECURITY: "HTTP"}, SECURITY, "expected one of PLAINTEXT, SSL"),
        (["A"], {INTER: "A", CONTROL: "B"}, CONTROL, "unknown listener B; configured listeners: A"),
        (["A"], {INTER: "A", CONTROL: "a"}, CONTROL, "this is already the inter-broker listener"),
    ],
)
def test_refused_roles(names, options, option, reason):
    with pytest.raises(ConfigurationError, match=reason) as refused:
        read_listener_roles(names, **options)
    assert refused.value.option == option.replace("_", ".")
    assert repr(options.get(option, "PLAINTEXT")) in str(refused.value), (
        "the error shows the given value, or the default"
    )
