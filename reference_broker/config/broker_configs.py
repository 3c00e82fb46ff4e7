"""What a broker is configured with: which values of a configuration there are, and which of them counts.

    changed for this broker, changed for all brokers, given at the start, default       each hides those behind it

A configuration may have other names, in another unit: what is set under any of them counts before a default.

Source: `DynamicBrokerConfig.brokerConfigSynonyms`, `ConfigHelper.configSynonyms` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.sdk.protocol.tables.configs import BROKER_CONFIGS, ConfigKey
from kafkawire.sdk.protocol.tables.enums import ConfigSource, ConfigType

__all__ = ["BrokerConfigs", "Setting", "default_of", "is_sensitive", "without_listener"]

_NOTHING: Final[Mapping[str, str]] = {}


class Setting(NamedTuple):
    """A value of a configuration, which may be hidden behind another one.

    Attributes:
        name: of the configuration, or a synonym.
        value: None if it is sensitive.
        source: where it is from.
    """

    name: str
    value: str | None
    source: ConfigSource


class BrokerConfigs:
    """The configurations of a broker.

    Args:
        options: what it was started with.
        static: what is known beside them at the start, by Kafka's names.

    Attributes:
        of_broker: what was changed for this broker, by Kafka's names.
        of_cluster: what was changed for all brokers.
    """

    def __init__(self, options: BrokerOptions, static: Mapping[str, str] = _NOTHING) -> None:
        self._static = {**options.given, "broker.id": str(options.node_id), **static}
        self.of_broker: Mapping[str, str] = {}
        self.of_cluster: Mapping[str, str] = {}

    @property
    def names(self) -> Iterable[str]:
        """The names of all configurations, those that only somebody else knows included."""
        return dict.fromkeys((*BROKER_CONFIGS, *self.of_cluster, *self.of_broker))

    def value(self, name: str) -> str | None:
        """Return the value of a configuration that counts; None if it has none, or is sensitive."""
        return next((setting.value for setting in self.settings(name)), None)

    def settings(self, name: str) -> list[Setting]:
        """Return the values of a configuration, the one that counts first; none if it has no value."""
        names = _synonyms(name)
        sources = (
            (self.of_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (self.of_cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self._static, ConfigSource.STATIC_BROKER_CONFIG),
        )
        found = [Setting(each, values[each], source) for values, source in sources for each in names if each in values]
        for each in names:
            default = default_of(BROKER_CONFIGS[each]) if each in BROKER_CONFIGS else None
            if default is not None:
                found.append(Setting(each, default, ConfigSource.DEFAULT_CONFIG))
        # Kafka shows nothing of a configuration that is set under another name alone.
        while found and found[0].name != name:
            del found[0]
        return [each._replace(value=None) for each in found] if is_sensitive(name) else found


def _synonyms(name: str) -> tuple[str, ...]:
    """Return the names of a configuration: its own, its synonyms; for a listener's, that of all listeners."""
    if name in BROKER_CONFIGS:
        return name, *BROKER_CONFIGS[name].synonyms
    base = without_listener(name)
    return (name, base) if base in BROKER_CONFIGS else (name,)


def without_listener(name: str) -> str:
    """Return the configuration that `listener.name.<listener>.<configuration>` is about, or the name itself."""
    prefix, _, rest = name.partition("listener.name.")
    return rest.partition(".")[2] if not prefix and rest else name


def default_of(key: ConfigKey) -> str | None:
    """Return the default that a configuration has here."""
    return key.default if key.here is None or key.here.default is None else key.here.default


def is_sensitive(name: str) -> bool:
    """Return whether nobody is shown the value of a configuration of the broker: a password, or nobody knows what."""
    key = BROKER_CONFIGS.get(without_listener(name))
    return key is None or key.type == ConfigType.PASSWORD
