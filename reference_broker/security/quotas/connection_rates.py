"""Quotas on new connections per second: for the whole broker, for each listener, and for each address (KIP-612).

If the broker or the listener is too busy, the acceptor waits before it admits the connection; a connection from an
address that connects too often is closed after a while instead, and does not count.

Source: `ConnectionQuotas` in Apache Kafka.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from kafkawire.reference_broker.config.broker_configs import BrokerConfigs
from kafkawire.reference_broker.config.config_values import parse_integer, trimmed
from kafkawire.reference_broker.config.security_settings import LISTENER_LIMITS
from kafkawire.reference_broker.metadata.entity_configs import DEFAULT, EntityName
from kafkawire.reference_broker.security.quotas.client_quota import IDLE_MS, METERS_MAX
from kafkawire.reference_broker.security.quotas.rates import SampledRate, Window, throttle_ms
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import INT32_MAX

__all__ = ["ConnectionRates", "address_of", "check_listener_limits", "listener_limits"]

#: The rate that stands for no limit, as in Kafka.
_NO_LIMIT: Final = INT32_MAX

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def address_of(text: str) -> Address:
    """Return the address in a text.

    Raises:
        ValueError: the text is not an address.
    """
    address = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def listener_limits(names: Iterable[str], config: str, otherwise: int, configs: BrokerConfigs) -> dict[str, int]:
    """Return a limit of each listener: its own configuration, or else another value.

    Args:
        names: the names of the listeners.
        config: the configuration, one of `LISTENER_LIMITS`.
        otherwise: the limit of a listener without a configuration of its own.
        configs: the broker's configurations, in which a listener's begin with `listener.name.<listener>.`.
    """
    limits = {}
    for name in names:
        own = parse_integer(trimmed(configs.value(f"listener.name.{name.lower()}.{config}") or ""))
        # Another program may have stored a limit that admits no connection; Kafka ignores it, too.
        limits[name] = otherwise if own is None or own < 1 else own
    return limits


def check_listener_limits(names: Collection[str], configs: Mapping[str, str]) -> None:
    """Check that every listener can still accept connections.

    Args:
        names: the names of the listeners; the limits of other ones do not matter.
        configs: configurations, with valid values.

    Raises:
        ConfigurationError: a limit is 0; the reason is Kafka's.
    """
    for name in names:
        for config in LISTENER_LIMITS:
            full_name = f"listener.name.{name.lower()}.{config}"
            if parse_integer(trimmed(configs.get(full_name, ""))) == 0:
                raise ConfigurationError(full_name, 0, f"Invalid {config} 0")


class ConnectionRates:
    """Measures new connections.

    Args:
        window: see `Window`; a connection waits for one sample at most.
    """

    def __init__(self, window: Window) -> None:
        self._window = window
        self._of_broker, self._broker_limit = SampledRate(window), _NO_LIMIT
        self._of_listeners: dict[str, SampledRate] = {}
        self._listener_limits: Mapping[str, int] = {}
        self._ip_limits: dict[Address, float] = {}
        self._ip_default: float = _NO_LIMIT
        #: In the order of their last use.
        self._of_ips: dict[Address, tuple[SampledRate, int]] = {}

    def change(self, broker: int, listeners: Mapping[str, int]) -> None:
        """Set the limits of the broker and of its listeners, keyed by name (`max.connection.creation.rate`)."""
        self._broker_limit = broker
        self._listener_limits = dict(listeners)

    def set_ip_limit(self, name: EntityName, limit: float | None) -> None:
        """Set the limit of an address, or of all others; None removes it.

        Raises:
            ValueError: the name is not an address.
        """
        if name is DEFAULT:
            self._ip_default = _NO_LIMIT if limit is None else limit
        elif limit is None:
            self._ip_limits.pop(address_of(str(name)), None)
        else:
            self._ip_limits[address_of(str(name))] = limit

    def delay_ms(self, listener: str, now_ms: int, *, is_protected: bool = False) -> int:
        """Count a new connection, and return how long to wait before it is admitted, in ms.

        Args:
            listener: the name of the listener.
            now_ms: the current time.
            is_protected: whether only brokers use the listener, which then does not count for the broker.
        """
        delay_ms = 0 if is_protected else self._record(self._of_broker, self._broker_limit, now_ms)
        limit = self._listener_limits.get(listener, _NO_LIMIT)
        return max(delay_ms, self._record(self._listener_rate(listener), limit, now_ms))

    def refusal_ms(self, listener: str, host: str, now_ms: int, *, is_protected: bool = False) -> int:
        """Return after how many ms a connection must be closed because of its address; 0 to admit it.

        Args:
            listener: the name of the listener, for which the connection has been counted.
            host: the address of the client.
            now_ms: the current time.
            is_protected: see `delay_ms`.
        """
        if not self._ip_limits and self._ip_default == _NO_LIMIT:
            return 0
        address = address_of(host)
        limit = self._ip_limits.get(address, self._ip_default)
        if limit == _NO_LIMIT:
            return 0
        rate = self._ip_rate(address, now_ms)
        delay_ms = self._record(rate, limit, now_ms)
        if delay_ms:
            uncounted = [rate, self._listener_rate(listener)] + ([] if is_protected else [self._of_broker])
            for each in uncounted:
                each.record(-1, now_ms)
        return delay_ms

    def _record(self, rate: SampledRate, limit: float, now_ms: int) -> int:
        rate.record(1, now_ms)
        return throttle_ms(rate, limit, now_ms, most_ms=self._window.sample_ms)

    def _listener_rate(self, listener: str) -> SampledRate:
        return self._of_listeners.setdefault(listener, SampledRate(self._window))

    def _ip_rate(self, address: Address, now_ms: int) -> SampledRate:
        found = self._of_ips.pop(address, None)
        while found is None and self._of_ips:
            oldest = next(iter(self._of_ips))
            if len(self._of_ips) < METERS_MAX and now_ms - self._of_ips[oldest][1] < IDLE_MS:
                break
            del self._of_ips[oldest]
        rate = SampledRate(self._window) if found is None else found[0]
        self._of_ips[address] = rate, now_ms
        return rate
