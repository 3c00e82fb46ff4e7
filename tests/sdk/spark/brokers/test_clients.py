"""Clients get a query's options, under Kafka's names or ours; secrets are never shown."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.spark.brokers.clients import FETCH_BYTES, ClientSettings

SERVERS = {"bootstrap.servers": "127.0.0.1:1"}
LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "me",
    "sasl.password": "do not tell",
}


JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="you" password="do not tell";'


def options_of(**given: object) -> Any:
    return ClientSettings({**SERVERS, **given}).consumer()._inner._options


def test_values() -> None:
    options = options_of(**{"fetch.min.bytes": "5", "check_crcs": "FALSE", "isolation.level": "read_committed"})
    assert (options.fetch_min_bytes, options.check_crcs, options.isolation_level) == (5, False, 1)
    assert (options.auto_offset_reset, options.enable_auto_commit) == ("none", False)
    assert options.max_partition_fetch_bytes == FETCH_BYTES
    assert options_of(max_partition_fetch_bytes="7").max_partition_fetch_bytes == 7


def test_values_that_are_no_text() -> None:
    """A program may pass values as numbers and booleans."""
    options = options_of(**{"fetch.max.bytes": 1000, "check.crcs": False, "retry_backoff_ms": 7})
    assert (options.fetch_max_bytes, options.check_crcs, options.retry_backoff_ms) == (1000, False, 7)


def test_login_of_java() -> None:
    options = options_of(**{"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS})
    assert (options.sasl_username, options.sasl_password.reveal()) == ("you", "do not tell")


def test_admin() -> None:
    settings = ClientSettings({**SERVERS, **LOGIN, "fetch.min.bytes": "5", "client.id": "reports"})
    assert settings.admin().client_id == settings.consumer().client_id == "reports"


def test_options_of_members_have_no_effect() -> None:
    given = {"group.id": "g", "session.timeout.ms": "6000", "heartbeat_interval_ms": "7", "max.poll.interval.ms": "8"}
    assert options_of(**given).group_id is None


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "kafka.bootstrap.servers=None: required, in the form host:port,host:port"),
        ({**SERVERS, "auto.offset.reset": "latest"}, "kafka.auto.offset.reset='latest': Spark decides where reading"),
        ({**SERVERS, "enable_auto_commit": "true"}, "kafka.enable_auto_commit='true': Spark decides"),
        ({**SERVERS, "key.deserializer": "x"}, "kafka.key.deserializer='x': keys and values are columns"),
        ({**SERVERS, "value.deserializer": "x"}, "kafka.value.deserializer='x': keys and values are columns"),
        ({**SERVERS, "interceptor.classes": "x"}, "kafka.interceptor.classes='x': an interceptor could"),
        ({**SERVERS, "group.protocol": "consumer"}, "kafka.group.protocol='consumer': no task joins a group"),
        ({**SERVERS, "io": "loop"}, "kafka.io='loop': a task has no event loop"),
        (
            {**SERVERS, "fetch.mim.bytes": "1"},
            "kafka.fetch.mim.bytes='1': no such option; did you mean kafka.fetch.min",
        ),
        ({**SERVERS, "fetch.min.bytes": None}, "kafka.fetch.min.bytes=None: expected text, a number, true or false"),
        ({**SERVERS, "fetch.min.bytes": 1.5}, "kafka.fetch.min.bytes='1.5': expected an integer"),
        ({"bootstrap.servers": ["a:1"]}, "kafka.bootstrap.servers=['a:1']: expected text, a number"),
        ({**SERVERS, "sasl.password": b"do not tell"}, "kafka.sasl.password=<hidden>: expected text, a number"),
        ({**SERVERS, "sasl.jaas.config": 7}, "kafka.sasl.jaas.config=<hidden>: expected PlainLoginModule"),
        ({**SERVERS, "fetch.min.bytes": "x"}, "kafka.fetch.min.bytes='x': expected an integer"),
        ({**SERVERS, "fetch_min_bytes": "-1"}, "kafka.fetch.min.bytes=-1: expected 0 to"),
        ({**SERVERS, "fetch.min.bytes": "1", "fetch_min_bytes": "1"}, "kafka.fetch_min_bytes='1': fetch_min_bytes is"),
        ({"bootstrap.servers": "nowhere:x"}, "kafka.bootstrap.servers='nowhere:x': "),
        ({**SERVERS, "sasl.jaas.config": "x password=y"}, "kafka.sasl.jaas.config=<hidden>: expected PlainLoginModule"),
        (
            {**SERVERS, **LOGIN, "sasl.jaas.config": JAAS},
            "kafka.sasl_username='you': sasl_username is also given",
        ),
        ({**SERVERS, **LOGIN, "sasl.pasword": "y"}, "kafka.sasl.pasword=<hidden>: no such option"),
        (
            {**SERVERS, **LOGIN, "sasl.password": ""},
            "kafka.sasl.password=<hidden>: expected a non-empty string",
        ),
    ],
)
def test_refused(given: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ClientSettings(given)
    assert str(caught.value).startswith(reason)
    assert caught.value.__cause__ is None


def test_secrets() -> None:
    settings = ClientSettings({**SERVERS, **LOGIN})
    shown = repr(settings)
    assert shown.startswith("ClientSettings(bootstrap_servers='127.0.0.1:1', security_protocol='SASL_SSL'")
    assert "sasl_password=<hidden>" in shown
    assert "do not tell" not in shown
    assert pickle.loads(pickle.dumps(settings)).consumer()._inner._options.sasl_password.reveal() == "do not tell"
