"""Rules for the configurations of resources: known names, allowed values, and consistency among values.

Source: `ControllerConfigurationValidator`, `DynamicBrokerConfig.validate`, `GroupConfig.validate` and
`ClientMetricsConfigs` in Apache Kafka, whose error texts are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address
from typing import Final

from kafkawire.reference_broker.config.broker_configs import BrokerConfigs, without_listener
from kafkawire.reference_broker.config.config_values import (
    InvalidConfig,
    check_value,
    entries_of,
    parse_integer,
    trimmed,
)
from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.config.security_settings import LISTENER_LIMITS
from kafkawire.reference_broker.config.topic_configs import check_config_name, check_together, check_topic_config
from kafkawire.sdk.errors import BrokerError, ConfigurationError
from kafkawire.sdk.protocol.tables.configs import (
    BROKER_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    RUNNING_BROKER_CONFIGS,
    ConfigKey,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["ConfigRules"]

#: TLS configurations that exist per listener, but not broker-wide.
_OF_LISTENERS: Final = re.compile(r"ssl\.(?:key\.password|keystore\..+|truststore\..+)")

#: Kafka's texts for options whose values are refused although they pass the option's own check.
_REQUIREMENTS: Final = {
    "log.retention.ms": "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    "log.cleaner.dedupe.buffer.size": "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    "max.connections.per.ip": "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides "
    "property is set.",
}

#: The limits of the intervals between assignments.
_INTERVALS: Final = {
    f"group.{kind}.assignment.interval.ms": f"group.{kind}.max.assignment.interval.ms"
    for kind in ("consumer", "streams")
}

#: Client properties that a subscription can match.
_SELECTORS: Final = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)

_OVERRIDES: Final = "max.connections.per.ip.overrides"

#: The configurations of a listener that may be configured for all brokers; every other one is for a single broker.
_FOR_ALL_LISTENERS: Final = frozenset({*LISTENER_LIMITS, "num.network.threads"})

#: Kafka can change these dynamically; this broker reads them only at startup.
_AT_THE_START: Final = frozenset({"listeners", "listener.security.protocol.map"})

#: The thread counts, which a Kafka broker changes in limited steps.
_THREADS: Final = frozenset(
    {
        "background.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
    }
)

_INTERVAL: Final = "interval.ms"
_INTERVAL_MIN_MS: Final = 100
_INTERVAL_MAX_MS: Final = 3_600_000

#: Maximum length of a selector's pattern; patterns are stored but not used, and no real one is longer.
_PATTERN_CHARACTERS_MAX: Final = 1_000


class ConfigRules:
    """Checks the complete configurations that a resource would have after a change.

    Args:
        options: broker options as given at startup.
        configs: configurations of the broker.
        check_listeners: given configurations of this broker or of all brokers, raises `ConfigurationError` if one of
            the broker's listeners could not be used with them.
        is_in_registry: see `ConfigStore.is_registry`.
    """

    def __init__(
        self,
        options: BrokerOptions,
        configs: BrokerConfigs,
        check_listeners: Callable[[Mapping[str, str]], None] = lambda configs: None,
        *,
        is_in_registry: bool = False,
    ) -> None:
        self._options = options
        self._configs = configs
        self._check_listeners = check_listeners
        self._is_in_registry = is_in_registry

    def check_topic(self, topic: str, configs: Mapping[str, str], defaults: Mapping[str, str]) -> None:
        """Check the resulting configuration of a topic.

        Args:
            topic: its name.
            configs: the topic's own configurations.
            defaults: the broker's defaults.

        Raises:
            BrokerError: INVALID_CONFIG.
        """

        def check() -> None:
            for name in configs:
                check_config_name(name)
            try:
                for name, value in configs.items():
                    check_topic_config(name, value)
            except InvalidConfig as error:
                if not self._is_in_registry:
                    raise
                resource = f"ConfigResource(type=TOPIC, name='{topic}')"
                raise InvalidConfig(f"Invalid config value for resource {resource}: {error}") from None
            check_together({**defaults, **configs})

        _refused(check, ErrorCode.INVALID_CONFIG)

    def check_group(self, configs: Mapping[str, str]) -> None:
        """Check the resulting configuration of a group.

        Raises:
            BrokerError: INVALID_CONFIG.
        """

        def check() -> None:
            for name in configs:
                if name not in GROUP_CONFIGS:
                    raise InvalidConfig(f"Unknown group config name: {name}")
            _check_values(GROUP_CONFIGS, configs)
            for name, value in configs.items():
                self._check_bounds(name, value)
            for kind in ("consumer", "share", "streams"):
                session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
                if self._number(configs, session) <= self._number(configs, heartbeat):
                    raise InvalidConfig(f"{session} must be greater than {heartbeat}")

        _refused(check, ErrorCode.INVALID_CONFIG)

    def _check_bounds(self, name: str, value: str) -> None:
        """Check a group's value against the broker's minimum and maximum."""
        kind, _, rest = name.partition(".")
        for word, bound, is_fine in (("greater", "min", int.__ge__), ("less", "max", int.__le__)):
            limit = f"group.{kind}.{bound}.{rest.removeprefix('num.')}"
            if limit in BROKER_CONFIGS:
                number, end = parse_integer(trimmed(value)), parse_integer(self._configs.value(limit) or "")
                if number is not None and end is not None and not is_fine(number, end):
                    raise InvalidConfig(f"{name} must be {word} than or equal to {limit}")

    def _number(self, configs: Mapping[str, str], name: str) -> int:
        value = configs.get(name) or self._configs.value(GROUP_CONFIGS[name].broker) or ""
        return parse_integer(trimmed(value)) or 0

    def check_client_metrics(self, configs: Mapping[str, str]) -> None:
        """Check the resulting configuration of a client metrics subscription.

        Raises:
            BrokerError: INVALID_REQUEST, or INVALID_CONFIG.
        """
        for name in configs:
            if name not in CLIENT_METRICS_CONFIGS:
                raise BrokerError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
        _refused(lambda: _check_values(CLIENT_METRICS_CONFIGS, configs), ErrorCode.INVALID_CONFIG)
        interval_ms = parse_integer(trimmed(configs.get(_INTERVAL, str(_INTERVAL_MIN_MS))))
        if interval_ms is not None and not _INTERVAL_MIN_MS <= interval_ms <= _INTERVAL_MAX_MS:
            reason = f"interval must be between {_INTERVAL_MIN_MS} and {_INTERVAL_MAX_MS} (1 hour)"
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"Invalid value {interval_ms} for {_INTERVAL}, {reason}")
        for pattern in entries_of(configs.get("match", "")):
            if not _is_selector(pattern):
                raise BrokerError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {pattern}")

    def check_broker(self, configs: Mapping[str, str], *, is_for_all: bool) -> None:
        """Check changed configurations of a broker, or of all brokers.

        Raises:
            BrokerError: INVALID_REQUEST.
        """

        def check() -> None:
            self._check_none(
                (name for name in configs if self._configs.is_read_only(name)),
                "Cannot update these configs dynamically",
            )
            self._check_none(
                (name for name in configs if _OF_LISTENERS.fullmatch(name)),
                "These security configs can be dynamically updated only per-listener using the listener prefix",
            )
            for name, value in configs.items():
                key = BROKER_CONFIGS.get(without_listener(name)) or RUNNING_BROKER_CONFIGS.get(name)
                if key is not None:
                    check_value(key, value)
            if is_for_all:
                self._check_none(
                    (name for name in configs if _is_per_broker(name)),
                    "Cannot update these configs at default cluster level, broker id must be specified",
                )
            # Kafka opens and closes listeners on such a change; accepting it without any effect would mislead the
            # client.
            self._check_none(
                (name for name in configs if name in _AT_THE_START), "Cannot update these configs dynamically"
            )
            if self._is_in_registry:
                self._check_threads(configs)
            _check_overrides(configs.get(_OVERRIDES, ""))
            self._check_options(configs)
            self._check_listeners_after(configs)

        _refused(check, ErrorCode.INVALID_REQUEST)

    def _check_listeners_after(self, configs: Mapping[str, str]) -> None:
        """Check that the broker's listeners can be used with the resulting configurations.

        Raises:
            InvalidConfig: a listener cannot be used.
        """
        try:
            self._check_listeners(configs)
        except ConfigurationError as error:
            raise InvalidConfig(_invalid_dynamically(error.reason)) from None

    def _check_none(self, names: Iterable[str], reason: str) -> None:
        """Check that none of the names are forbidden.

        Raises:
            InvalidConfig: a name is forbidden.
        """
        found = ", ".join(sorted(names))
        if found:
            raise InvalidConfig(f"{reason}: {f'Set({found})' if self._is_in_registry else f'[{found}]'}")

    def _check_threads(self, configs: Mapping[str, str]) -> None:
        """Check that no thread count more than doubles or falls below half.

        Raises:
            InvalidConfig: a thread count changes too much.
        """
        for name in configs.keys() & _THREADS:
            number, current = parse_integer(trimmed(configs[name])), parse_integer(self._configs.value(name) or "")
            if number is None or current is None or current // 2 <= number <= current * 2:
                continue
            if number < current // 2:
                bound = f"be at least half the current value {current}"
            else:
                bound = f"not be greater than double the current value {current}"
            reason = f"Dynamic thread count update validation failed for {name}={number}, value should {bound}"
            raise InvalidConfig(_invalid_dynamically(reason))

    def _check_options(self, configs: Mapping[str, str]) -> None:
        """Check the broker's resulting options for consistency.

        Raises:
            InvalidConfig: the options are inconsistent.
        """
        values = {}
        for name, value in configs.items():
            own = BrokerOptions.KAFKA_NAMES.get(name)
            if own is not None:
                try:
                    values[own] = BrokerOptions.read_value(name, trimmed(value))
                except ConfigurationError as error:
                    raise InvalidConfig(_requirement(name, value, error)) from None
        try:
            self._options.with_values(**values).check(values.keys())
        except ConfigurationError as error:
            name = _kafka_name(error.option)
            raise InvalidConfig(_requirement(name, configs.get(name, ""), error)) from None


def _requirement(name: str, value: object, error: ConfigurationError) -> str:
    """Return Kafka's text for a refused value, or our own if Kafka accepts the value."""
    if name in LISTENER_LIMITS:
        return _invalid_dynamically(f"Invalid {name} {value}")
    if name in _REQUIREMENTS:
        return f"requirement failed: {_REQUIREMENTS[name]}"
    if name in _INTERVALS:
        return f"{name} must be less than or equal to {_INTERVALS[name]}"
    return f"Invalid value {value} for configuration {name}: {error.reason}"


def _invalid_dynamically(reason: str) -> str:
    """Return Kafka's text for a change that a part of the broker refuses."""
    return (
        f"Invalid value org.apache.kafka.common.config.ConfigException: {reason} for configuration Invalid dynamic "
        "configuration"
    )


def _kafka_name(option: str) -> str:
    known = BrokerOptions.OPTIONS.get(option)
    return option if known is None or known.kafka_name is None else known.kafka_name


def _refused(check: Callable[[], None], code: ErrorCode) -> None:
    """Run a check, and raise its errors with an error code.

    Raises:
        BrokerError: the check failed.
    """
    try:
        check()
    except InvalidConfig as error:
        raise BrokerError(code, str(error)) from None


def _check_values(keys: Mapping[str, ConfigKey], configs: Mapping[str, str]) -> None:
    for name, value in configs.items():
        check_value(keys[name], value)


def _check_overrides(text: str) -> None:
    """Check per-address connection limits; host names are refused, since resolving them would block the broker.

    Raises:
        InvalidConfig: an entry is not an address followed by a number.
    """
    for entry in filter(None, entries_of(text)):
        host, _, number = entry.rpartition(":")
        try:
            ip_address(host.strip("[]"))
        except ValueError:
            reason = f"{entry!r} is not of the form ADDRESS:NUMBER; host names are only accepted at startup"
            raise InvalidConfig(f"Error parsing configuration property '{_OVERRIDES}': {reason}") from None
        if (parse_integer(number) or 0) < 0 or parse_integer(number) is None:
            reason = f"the number of connections must be an integer of 0 or higher, got {number!r}"
            raise InvalidConfig(f"Error parsing configuration property '{_OVERRIDES}': {reason}")


def _is_per_broker(name: str) -> bool:
    base = without_listener(name)
    if base != name:
        return base not in _FOR_ALL_LISTENERS
    return base in BROKER_CONFIGS and BROKER_CONFIGS[base].update == "per-broker"


def _is_selector(pattern: str) -> bool:
    """Return whether a text selects clients, as in `client_id=shop-.*`."""
    name, _, expression = pattern.partition("=")
    if name.strip() not in _SELECTORS or "=" in expression or not 0 < len(expression) <= _PATTERN_CHARACTERS_MAX:
        return False
    try:
        re.compile(expression)
    except re.error:
        return False
    return True
