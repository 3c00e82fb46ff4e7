"""Read a broker's configuration file in the format of Kafka's `server.properties`; its entries become options.

Files written for Apache Kafka are accepted: controller listeners are left out, and times may be in hours or minutes.
Options that only this broker has go by their own names. With `zookeeper.connect`, the broker belongs to a cluster, and
cluster options are accepted too. Entries without effect are collected for reporting; entries that would be unsafe to
ignore are refused (`unserved_configs.py`).

Source: `KafkaConfig`, `ServerLogConfigs`, `KRaftConfigs`, `ZkConfigs` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kafkawire.reference_broker.config.cluster_options import ClusterOptions
from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.config.security_settings import PREFIX, is_known_for_listeners
from kafkawire.reference_broker.config.unserved_configs import danger_of, reason_without_effect
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import INT32_MAX, parse_integer
from kafkawire.sdk.storage.properties import Property, parse_properties

__all__ = ["ConfigFile", "config_of", "read_config"]

#: Names of options in other units, with the conversion factor; the first name present in a file is used.
_TIMES: Final = (
    ("log.retention.ms", "log.retention.minutes", 60_000),
    ("log.retention.ms", "log.retention.hours", 3_600_000),
    ("log.roll.ms", "log.roll.hours", 3_600_000),
    ("log.roll.jitter.ms", "log.roll.jitter.hours", 3_600_000),
)

#: Other names of options; an option's own name has priority over them.
_SYNONYMS: Final = {"broker.id": "node.id", "delegation.token.master.key": "delegation.token.secret.key"}

#: Names of the data directory option; the first one present in a file is used.
_DATA: Final = ("log.dirs", "log.dir")

#: The first option makes the broker a member of a cluster with ZooKeeper; the second is for clusters without it.
_ZOOKEEPER: Final = "zookeeper.connect"
_ROLES: Final = "process.roles"

#: The options that Kafka does not have.
_OWN: Final = frozenset(BrokerOptions.OPTIONS) - frozenset(BrokerOptions.KAFKA_NAMES.values())

_SERVED_IN_CLUSTERS: Final = frozenset(ClusterOptions.KAFKA_NAMES)

#: Where a broker in a cluster listens by default: on all addresses, as in Kafka, since other brokers connect to it.
_DEFAULT_LISTENERS: Final = "PLAINTEXT://:9092"

_CONTROLLERS: Final = "controller.listener.names"
_LISTENERS: Final = ("listeners", "advertised.listeners", "listener.security.protocol.map")


class ConfigFile(NamedTuple):
    """The content of a configuration file.

    Attributes:
        path: the file; empty if there is none.
        options: see `BrokerOptions` and `ClusterOptions`; keyed by Kafka's names, or by the names of options that Kafka
            does not have; also those of single listeners.
        data_dir: the folder for the broker's files; None if not given.
        without_effect: why an entry has no effect, or not the effect that the file asks for, keyed by name.
        lines: the line number of each name.
    """

    path: str
    options: dict[str, str]
    data_dir: str | None
    without_effect: dict[str, str]
    lines: dict[str, int]

    def remarks(self) -> list[str]:
        """Return a line for each entry that has no effect, or not the effect that the file asks for."""
        names = sorted(self.without_effect, key=lambda name: self.lines[name])
        return [f"{self.path}:{self.lines[name]}: {name}: {self.without_effect[name]}" for name in names]

    def placed(self, error: ConfigurationError) -> ConfigurationError:
        """Return an error, prefixed with the location of its option if the option is set in the file."""
        known = {**BrokerOptions.KAFKA_NAMES, **ClusterOptions.KAFKA_NAMES}
        names = (name for name, own in known.items() if error.option in (name, own))
        name = next(names, error.option)
        if name not in self.options:
            return error
        return _placed(self.path, self.lines[name], name, self.options[name], error.reason)


def read_config(path: str | Path) -> ConfigFile:
    """Read a configuration file.

    Raises:
        ConfigurationError: a line is malformed, or a value is refused; the text names the file and the line.
        OSError: the file cannot be read.
    """
    return config_of(Path(path).read_bytes().decode(errors="replace"), path)


def config_of(text: str, path: str | Path = "") -> ConfigFile:
    """Return the content of a configuration file.

    Args:
        text: its text.
        path: the file; empty if there is none, so that errors name only the options.

    Raises:
        ConfigurationError: see `read_config`.
    """
    try:
        entries = {entry.name: entry for entry in parse_properties(text)}
    except ValueError as error:
        raise ConfigurationError("--config", str(path), str(error)) from None
    lines = {name: entry.line for name, entry in entries.items()}
    values = {name: entry.value.strip() for name, entry in entries.items()}
    of_cluster = _of_cluster(path, entries)
    found: dict[str, str] = {}
    without_effect: dict[str, str] = {}
    for name, value in values.items():
        known = name if name in of_cluster else _SYNONYMS.get(name, name)
        if known != name and known in values:
            without_effect[name] = f"without effect: {known} is given, too"
        elif (
            known in BrokerOptions.KAFKA_NAMES or known in of_cluster or is_known_for_listeners(known) or known in _OWN
        ):
            found[known] = value
            lines[known] = lines[name]
        elif name not in (*_DATA, _CONTROLLERS, *(other for _, other, _ in _TIMES)):
            danger = danger_of(name, value)
            if danger is not None:
                raise _placed(path, lines[name], name, value, f"{danger}; remove this entry if that is acceptable")
            reason = reason_without_effect(name, is_alone=not of_cluster, served=_SERVED_IN_CLUSTERS)
            without_effect[name] = f"without effect: {reason}"
    for name, other, factor in _TIMES:
        if name not in found and other in values:
            found[name] = _in_ms(path, entries[other], factor)
            lines[name] = lines[other]
    _leave_out_controllers(found, values.get(_CONTROLLERS, ""))
    if of_cluster:
        found.setdefault("listeners", _DEFAULT_LISTENERS)
        lines.setdefault("listeners", lines[_ZOOKEEPER])
    for name, value in found.items():
        if name.startswith(PREFIX):
            continue  # only the broker knows the names of its listeners
        try:
            # Contradictions between values are not checked here, since the command line may correct them.
            (ClusterOptions if name in of_cluster else BrokerOptions).read_value(name, value)
        except ConfigurationError as error:
            raise _placed(path, lines[name], name, value, error.reason) from None
    data_dir, unused = _data_dir(path, entries)
    without_effect.update(unused)
    return ConfigFile(str(path), found, data_dir, without_effect, lines)


def _of_cluster(path: str | Path, entries: Mapping[str, Property]) -> Mapping[str, str]:
    """Return the names of the cluster options; empty for a standalone broker."""
    zookeeper, roles = entries.get(_ZOOKEEPER), entries.get(_ROLES)
    if zookeeper is None:
        return {}
    if roles is not None and roles.value.strip():
        reason = f"cannot be combined with {_ZOOKEEPER}; remove one of the two"
        raise _placed(path, roles.line, _ROLES, roles.value.strip(), reason)
    return ClusterOptions.KAFKA_NAMES


def _placed(path: str | Path, line: int, name: str, value: str, reason: str) -> ConfigurationError:
    return ConfigurationError(f"{path}:{line}: {name}" if path else name, value, reason)


def _in_ms(path: str | Path, entry: Property, factor: int) -> str:
    """Return a time in milliseconds; in any unit, a negative time means no limit."""
    count = parse_integer(entry.value.strip())
    if not isinstance(count, int):
        raise _placed(path, entry.line, entry.name, entry.value, "expected an integer")
    if abs(count) > INT32_MAX:
        raise _placed(path, entry.line, entry.name, entry.value, f"expected at most {INT32_MAX}")
    return str(count * factor if count > 0 else count)


def _data_dir(path: str | Path, entries: Mapping[str, Property]) -> tuple[str | None, dict[str, str]]:
    """Return the folder for the broker's files, and a remark if other folders are listed.

    If several folders are listed, the first one is used, but only if the others are empty, since their files may be the
    only copies of records.
    """
    entry = next((entries[name] for name in _DATA if name in entries), None)
    if entry is None:
        return None, {}
    folders = [folder.strip() for folder in entry.value.split(",") if folder.strip()]
    if not folders:
        raise _placed(path, entry.line, entry.name, entry.value, "expected a folder")
    first, *others = folders
    for each in others:
        if Path(each).is_dir() and any(Path(each).iterdir()):
            reason = f"this broker uses only the folder {first}, but {each} has files too; move its partitions first"
            raise _placed(path, entry.line, entry.name, entry.value, reason)
    unused = f"this broker uses only the folder {first}, and ignores {', '.join(others)}"
    return first, {entry.name: unused} if others else {}


def _leave_out_controllers(options: dict[str, str], controllers: str) -> None:
    """Remove the listeners of Kafka's controller, which this broker does not need, and their configurations."""
    names = {name.strip().upper() for name in controllers.split(",")} - {""}
    for name in [*options]:
        if name.startswith(tuple(f"{PREFIX}{each.lower()}." for each in names)):
            del options[name]
    for option in _LISTENERS if names else ():
        entries = [entry.strip() for entry in options.get(option, "").split(",")]
        kept = [entry for entry in entries if entry and entry.partition(":")[0].upper() not in names]
        if option in options:
            options[option] = ",".join(kept)
