"""A broker's configurations: the values of each one from all sources, and the effective value.

    changed for this broker, changed for all brokers, given at startup, default       each hides those to its right

A configuration may have synonyms in other units; a value set under any of these names takes precedence over a default.

Source: `DynamicBrokerConfig.brokerConfigSynonyms`, `ConfigHelper.configSynonyms` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.sdk.protocol.tables.configs import (
    BROKER_CONFIGS,
    RUNNING_BROKER_CONFIGS,
    ZOOKEEPER_BROKER_CONFIGS,
    ConfigKey,
)
from kafkawire.sdk.protocol.tables.enums import ConfigSource, ConfigType
from kafkawire.sdk.secret import SecretText

__all__ = ["BrokerConfigs", "Setting", "base_of", "default_of", "held", "is_password", "without_listener"]

#: The configurations that one mechanism on a listener can have: `listener.name.<listener>.<mechanism>.<configuration>`.
_OF_MECHANISMS: Final = (
    "connections.max.reauth.ms",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
)

#: The types of configurations whose values must not be shown.
_SENSITIVE: Final = (ConfigType.UNKNOWN, ConfigType.PASSWORD)

_PASSWORDS: Final = tuple(key.name for key in BROKER_CONFIGS.values() if key.type == ConfigType.PASSWORD)

_NOTHING: Final[Mapping[str, str]] = {}


class Setting(NamedTuple):
    """A value of a configuration, which another value may override.

    Attributes:
        name: name of the configuration, or a synonym.
        value: None if it is sensitive.
        source: its origin.
    """

    name: str
    value: str | None
    source: ConfigSource


class BrokerConfigs:
    """The configurations of a broker.

    Args:
        options: the options at startup.
        static: other configurations given at startup, keyed by Kafka's names.
        has_zookeeper: whether the broker belongs to a cluster with ZooKeeper.

    Attributes:
        keys: the configurations that can be given at startup, keyed by Kafka's names.
        of_broker: dynamic configurations of this broker, keyed by Kafka's names.
        of_cluster: dynamic configurations that apply to all brokers.
    """

    def __init__(
        self, options: BrokerOptions, static: Mapping[str, str] = _NOTHING, *, has_zookeeper: bool = False
    ) -> None:
        self.keys: Mapping[str, ConfigKey] = {**BROKER_CONFIGS, **(ZOOKEEPER_BROKER_CONFIGS if has_zookeeper else {})}
        self._static = {**options.given, "broker.id": str(options.node_id), **static}
        self.of_broker: Mapping[str, str] = {}
        self.of_cluster: Mapping[str, str] = {}

    @property
    def names(self) -> Iterable[str]:
        """The names of all configurations, including those that this broker does not know."""
        of_listeners = (name for name in self._static if without_listener(name) != name)
        return dict.fromkeys((*self.keys, *of_listeners, *self.of_cluster, *self.of_broker))

    def value(self, name: str) -> str | None:
        """Return the effective value of a configuration; None if it has no value or is sensitive."""
        return next((setting.value for setting in self.settings(name)), None)

    def settings(self, name: str) -> list[Setting]:
        """Return the values of a configuration, the effective one first; empty if it has no value."""
        names = _synonyms(name)
        sources = (
            (self.of_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (self.of_cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self._static, ConfigSource.STATIC_BROKER_CONFIG),
        )
        found = [Setting(each, values[each], source) for values, source in sources for each in names if each in values]
        for each in names:
            default = default_of(self.keys[each]) if each in self.keys else None
            if default is not None:
                found.append(Setting(each, default, ConfigSource.DEFAULT_CONFIG))
        # If a configuration is set only under another name, Kafka shows no value.
        while found and found[0].name != name:
            del found[0]
        return [each._replace(value=None) for each in found] if self.is_sensitive(name) else found

    def is_sensitive(self, name: str) -> bool:
        """Return whether a value must not be shown: it is a password, or its configuration is unknown."""
        return self.type_of(name) in _SENSITIVE

    def type_of(self, name: str) -> ConfigType:
        """Return the type of a configuration; that of a listener has the type of the broker's."""
        return _type_of(name, self.keys)

    def is_read_only(self, name: str) -> bool:
        """Return whether a running broker keeps the value that it was started with."""
        return name in self.keys and (name not in BROKER_CONFIGS or BROKER_CONFIGS[name].is_read_only)


def held(configs: Mapping[str, str]) -> dict[str, str]:
    """Return dynamic configurations of brokers as they are kept in memory, in which nothing shows sensitive values."""
    return {
        name: SecretText(value) if _type_of(name, BROKER_CONFIGS) in _SENSITIVE else value
        for name, value in configs.items()
    }


def is_password(name: str) -> bool:
    """Return whether a configuration is a password; as in Kafka's `DynamicBrokerConfig`, its name's end decides."""
    return name.endswith(_PASSWORDS)


def _type_of(name: str, keys: Mapping[str, ConfigKey]) -> ConfigType:
    key = keys.get(base_of(name)) or RUNNING_BROKER_CONFIGS.get(name)
    return ConfigType.UNKNOWN if key is None else key.type


def _synonyms(name: str) -> tuple[str, ...]:
    """Return the names of a configuration: its own, its synonyms, and its name without a listener prefix."""
    if name in BROKER_CONFIGS:
        return name, *BROKER_CONFIGS[name].synonyms
    base = base_of(name)
    return (name, base) if base in BROKER_CONFIGS else (name,)


def without_listener(name: str) -> str:
    """Return the configuration named by `listener.name.<listener>.<configuration>`, or the name itself."""
    prefix, _, rest = name.partition("listener.name.")
    return rest.partition(".")[2] if not prefix and rest else name


def base_of(name: str) -> str:
    """Return the configuration that one of a listener, or of a mechanism on it, overrides; or the name itself."""
    base = without_listener(name)
    return base if base == name else next((each for each in _OF_MECHANISMS if base.endswith(each)), base)


def default_of(key: ConfigKey) -> str | None:
    """Return the broker's default for a configuration."""
    return key.default if key.here is None or key.here.default is None else key.here.default
