"""Connections wait while the broker or a listener is too busy, and are refused while an address is.

Method: count connections at given times; the numbers follow from Kafka's formulas (`ConnectionQuotas`).
"""

from __future__ import annotations

from functools import partial

import pytest

from kafkawire.reference_broker.config.broker_configs import BrokerConfigs
from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.config.security_settings import LISTENER_LIMITS
from kafkawire.reference_broker.metadata.entity_configs import DEFAULT
from kafkawire.reference_broker.security.quotas import connection_rates
from kafkawire.reference_broker.security.quotas.client_quota import IDLE_MS
from kafkawire.reference_broker.security.quotas.connection_rates import (
    ConnectionRates,
    address_of,
    check_listener_limits,
    listener_limits,
)
from kafkawire.reference_broker.security.quotas.rates import Window
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import INT32_MAX

WINDOW = Window(11, 1_000)


def delays(rates: ConnectionRates, count: int, listener: str = "A", now_ms: int = 0, **named: bool) -> list[int]:
    return [rates.delay_ms(listener, now_ms, **named) for _ in range(count)]


def test_no_limits() -> None:
    rates = ConnectionRates(WINDOW)
    assert delays(rates, 1_000) == [0] * 1_000
    assert rates.refusal_ms("A", "10.0.0.1", 0) == 0


def test_the_limit_of_the_broker() -> None:
    rates = ConnectionRates(WINDOW)
    rates.change(2, {})
    assert delays(rates, 20) == [0] * 20
    assert delays(rates, 2, "B") == [500, 1_000]
    assert delays(rates, 1) == [1_000], "no connection waits for more than a sample"
    assert delays(rates, 1, now_ms=30_000) == [0]


def test_the_limit_of_a_listener() -> None:
    rates = ConnectionRates(WINDOW)
    rates.change(INT32_MAX, {"A": 1, "B": INT32_MAX})
    assert delays(rates, 11) == [0] * 10 + [1_000]
    assert delays(rates, 11, "B") == [0] * 11
    rates.change(INT32_MAX, {"A": 10})
    assert delays(rates, 1) == [0]


def test_a_listener_between_brokers_does_not_count_for_the_broker() -> None:
    rates = ConnectionRates(WINDOW)
    rates.change(1, {"A": 5})
    assert delays(rates, 20, is_protected=True) == [0] * 20
    assert delays(rates, 10, "B") == [0] * 10
    assert delays(rates, 31, is_protected=True)[-1] == 200


@pytest.mark.parametrize("is_protected", [False, True])
def test_the_limit_of_an_address(is_protected: bool) -> None:
    rates = ConnectionRates(WINDOW)
    rates.change(2, {"A": 2})
    rates.set_ip_limit("10.0.0.1", 1)

    def connect(host: str) -> tuple[int, int]:
        delay_ms = rates.delay_ms("A", 0, is_protected=is_protected)
        return delay_ms, rates.refusal_ms("A", host, 0, is_protected=is_protected)

    assert [connect("10.0.0.1") for _ in range(10)] == [(0, 0)] * 10
    assert [connect("10.0.0.1") for _ in range(50)] == [(0, 1_000)] * 50, "refused connections do not count"
    assert [connect("10.0.0.2") for _ in range(10)] == [(0, 0)] * 10
    assert connect("10.0.0.2") == (500, 0)
    rates.set_ip_limit("10.0.0.1", None)
    assert rates.refusal_ms("A", "10.0.0.1", 0) == 0


def test_the_default_for_addresses() -> None:
    rates = ConnectionRates(WINDOW)
    rates.set_ip_limit(DEFAULT, 1)
    rates.set_ip_limit("10.0.0.2", 2)
    for host, most in (("10.0.0.1", 10), ("::ffff:10.0.0.3", 10), ("fe80::1%eth0", 10), ("10.0.0.2", 20)):
        assert [rates.refusal_ms("A", host, 0) for _ in range(most)] == [0] * most
        assert rates.refusal_ms("A", host, 0) > 0
    assert rates.refusal_ms("A", "10.0.0.3", 0) > 0
    rates.set_ip_limit(DEFAULT, None)
    assert rates.refusal_ms("A", "10.0.0.1", 0) == 0
    rates.set_ip_limit(DEFAULT, 0)
    assert rates.refusal_ms("A", "10.0.0.9", 0) == 1_000, "Kafka 3.9 accepts 0, which admits nobody"


def test_names_that_are_not_addresses() -> None:
    rates = ConnectionRates(WINDOW)
    with pytest.raises(ValueError, match="example"):
        rates.set_ip_limit("example.com", 1)
    assert address_of("[::1]") == address_of("::1")


def test_addresses_that_are_idle_or_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = ConnectionRates(WINDOW)
    rates.set_ip_limit(DEFAULT, 5)
    for number, now_ms in ((1, 0), (2, IDLE_MS - 1), (3, IDLE_MS)):
        rates.refusal_ms("A", f"10.0.0.{number}", now_ms)
    assert [str(each) for each in rates._of_ips] == ["10.0.0.2", "10.0.0.3"]
    monkeypatch.setattr(connection_rates, "METERS_MAX", 2)
    rates.refusal_ms("A", "10.0.0.4", IDLE_MS)
    assert [str(each) for each in rates._of_ips] == ["10.0.0.3", "10.0.0.4"]


def test_an_address_that_connects_is_not_idle() -> None:
    rates = ConnectionRates(WINDOW)
    rates.set_ip_limit(DEFAULT, 5)
    for number, now_ms in ((1, 0), (1, IDLE_MS - 1), (2, IDLE_MS)):
        rates.refusal_ms("A", f"10.0.0.{number}", now_ms)
    assert [str(each) for each in rates._of_ips] == ["10.0.0.1", "10.0.0.2"]


def test_a_connection_that_was_refused_between_brokers_makes_no_room_for_clients() -> None:
    rates = ConnectionRates(WINDOW)
    rates.change(2, {})
    rates.set_ip_limit("10.0.0.1", 1)
    for _ in range(50):
        rates.delay_ms("A", 0, is_protected=True)
        rates.refusal_ms("A", "10.0.0.1", 0, is_protected=True)
    assert delays(rates, 21, "B") == [0] * 20 + [500]


def test_the_configurations_of_listeners() -> None:
    configs = BrokerConfigs(read_options({"max.connection.creation.rate": "20"}))
    names, rate = ["INTERNAL", "External"], "max.connection.creation.rate"
    assert listener_limits(names, rate, 20, configs) == {"INTERNAL": 20, "External": 20}
    configs.of_cluster = {"listener.name.external.max.connection.creation.rate": " 5 "}
    configs.of_broker = {"listener.name.internal.max.connection.creation.rate": "7"}
    assert listener_limits(names, rate, 20, configs) == {"INTERNAL": 7, "External": 5}
    configs.of_broker = {"listener.name.internal.max.connection.creation.rate": "0"}
    assert listener_limits(names, rate, 20, configs)["INTERNAL"] == 20, "nobody could connect"


@pytest.mark.parametrize("config", LISTENER_LIMITS)
def test_a_listener_must_let_somebody_in(config: str) -> None:
    check = partial(check_listener_limits, ["External"])
    check({f"listener.name.external.{config}": "1", f"listener.name.elsewhere.{config}": "0", config: "0"})
    with pytest.raises(ConfigurationError) as caught:
        check({f"listener.name.external.{config}": " 0 "})
    assert caught.value.reason == f"Invalid {config} 0"
