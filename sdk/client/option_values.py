"""Readers of option values: each function checks one value and returns it in the form that the clients use.

Each takes the option's name for its error, a `ConfigurationError` that states the expected values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal, cast, get_args

from kafkawire.sdk.client.partitioner import ROUND_ROBIN, Partitioner
from kafkawire.sdk.client.times import is_timedelta
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.groups.assignor import Assignor, AssignorName
from kafkawire.sdk.metrics.names import MetricsReporter
from kafkawire.sdk.options import listed, read_text
from kafkawire.sdk.protocol.primitives import MAX_STRING_BYTES
from kafkawire.sdk.protocol.tables.enums import Acks, IsolationLevel
from kafkawire.sdk.records import Compression
from kafkawire.sdk.registry.connect_string import parse_connect
from kafkawire.sdk.routing.topics import LEGAL_NAME, is_legal_name
from kafkawire.sdk.transport.wire import Address, addresses

__all__ = [
    "ACKS",
    "ASSIGNOR_NAMES",
    "COMPRESSIONS",
    "ISOLATION_LEVELS",
    "RESET_POLICIES",
    "SECURITY_PROTOCOLS",
    "BootstrapServers",
    "check_encodable",
    "check_protocols",
    "name_or_none",
    "read_acks",
    "read_assignors",
    "read_bootstrap_servers",
    "read_compression",
    "read_group_id",
    "read_group_instance_id",
    "read_isolation_level",
    "read_metrics_reporter",
    "read_optional_flag",
    "read_partitioner",
    "read_reset_policy",
    "read_wire_text",
    "read_zookeeper_connect",
]

ASSIGNOR_NAMES: Final[tuple[AssignorName, ...]] = get_args(AssignorName)

#: Where a consumer starts if there is no committed offset; a duration is also possible.
RESET_POLICIES: Final = ("latest", "earliest", "none")

#: The names of these policies in librdkafka.
_MEANT_POLICIES: Final = {
    "smallest": "earliest",
    "beginning": "earliest",
    "largest": "latest",
    "end": "latest",
    "error": "none",
}

COMPRESSIONS: Final = {member.name.lower(): member for member in Compression}
ISOLATION_LEVELS: Final = {member.name.lower(): member for member in IsolationLevel}
ACKS: Final[Mapping[str | int, Acks]] = {"all": Acks.ALL, **{int(acks): acks for acks in Acks}}

_SURROGATE = re.compile("[\ud800-\udfff]")

#: The maximum number of characters of an overlong string shown in an error.
_SHOWN_CHARACTERS: Final = 30

#: Durations in the syntax of java.time.Duration (ISO 8601), without signs.
_DURATION = re.compile(r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


#: The protocols of brokers' listeners.
SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class BootstrapServers(tuple[Address, ...]):
    """Addresses, and the protocols written before them, as in `SASL_SSL://host:port`.

    Attributes:
        protocols: the protocols, keyed by server as given; servers without a protocol are left out.
    """

    protocols: Mapping[str, str] = MappingProxyType({})


def read_bootstrap_servers(name: str, value: object) -> BootstrapServers:
    """Return the addresses in a string or a sequence; each can be preceded by a protocol."""
    if isinstance(value, Mapping):
        raise ConfigurationError(name, list(value), "options are keyword arguments: pass the mapping as **options")
    if not isinstance(value, str | Iterable) or isinstance(value, bytes | bytearray | memoryview):
        raise ConfigurationError(name, value, "expected host:port,host:port")
    given = value.split(",") if isinstance(value, str) else list(value)
    protocols: dict[str, str] = {}
    for index, text in enumerate(given):
        if isinstance(text, str) and "://" in text:
            protocol, _, given[index] = text.strip().partition("://")
            protocols[text.strip()] = protocol.upper()
            if protocol.upper() not in SECURITY_PROTOCOLS:
                known = ", ".join(f"{each}://" for each in SECURITY_PROTOCOLS)
                raise ConfigurationError(name, text, f"{protocol}:// is not a Kafka protocol; expected one of {known}")
    found = BootstrapServers(addresses(given))
    found.protocols = protocols
    return found


def check_protocols(servers: tuple[Address, ...], security_protocol: str) -> None:
    """Reject servers whose protocol differs from `security_protocol`.

    Raises:
        ConfigurationError: the two contradict each other.
    """
    for text, protocol in getattr(servers, "protocols", {}).items():
        if protocol != security_protocol:
            reason = f'{protocol}:// contradicts security_protocol="{security_protocol}"; set that to "{protocol}"'
            raise ConfigurationError("bootstrap_servers", text, reason)


def read_acks(name: str, value: object) -> int:
    """Return the number of replicas that must acknowledge."""
    if not isinstance(value, str | int) or isinstance(value, bool) or value not in ACKS:
        known = listed(value, ["all"], "1 or 0")
        raise ConfigurationError(name, value, f"expected {known}")
    return ACKS[value]


def read_compression(name: str, value: object) -> Compression:
    """Return a compression, given as a member or by name."""
    if isinstance(value, Compression):
        return value
    if not isinstance(value, str) or value not in COMPRESSIONS:
        raise ConfigurationError(name, value, f"expected one of {listed(value, [*COMPRESSIONS])}")
    return COMPRESSIONS[value]


def read_reset_policy(name: str, value: object) -> str | int:
    """Return the name of a policy, or the duration to go back in milliseconds."""
    if isinstance(value, str) and value in RESET_POLICIES:
        return str(value)
    if is_timedelta(value) and value.days >= 0:
        return (value.days * 24 * 60 * 60 + value.seconds) * 1000 + value.microseconds // 1000
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None or not any(found.groups()):
        known = listed(value, RESET_POLICIES, "by_duration:P7DT12H", "or a timedelta", meant=_MEANT_POLICIES)
        raise ConfigurationError(name, value, f"expected one of {known}")
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def read_isolation_level(name: str, value: object) -> IsolationLevel:
    """Return an isolation level, given as a member or by name."""
    if isinstance(value, IsolationLevel):
        return value
    if not isinstance(value, str) or value not in ISOLATION_LEVELS:
        raise ConfigurationError(name, value, f"expected one of {listed(value, [*ISOLATION_LEVELS])}")
    return ISOLATION_LEVELS[value]


def read_assignors(name: str, value: object) -> tuple[str | Assignor, ...]:
    """Return assignors, given as names or objects; each must have a different name."""
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, Iterable) else [value]
    chosen = tuple(part.strip() if isinstance(part, str) else part for part in parts)
    names = [_assignor_name(part) for part in chosen]
    if not chosen or None in names:
        wrong = next((part for part, known in zip(chosen, names, strict=True) if known is None), value)
        known = listed(wrong, ASSIGNOR_NAMES, "or your own objects with a name and `assign`")
        raise ConfigurationError(name, value, f"expected one or more of {known}")
    for each in names:
        read_wire_text(name, each)
    if len(set(names)) < len(names):
        raise ConfigurationError(name, value, "expected assignors with different names")
    return cast("tuple[str | Assignor, ...]", chosen)


def _assignor_name(part: object) -> str | None:
    """Return the name of an assignor; None if the value is not an assignor."""
    if isinstance(part, str):
        return part if part in ASSIGNOR_NAMES else None
    own = getattr(part, "name", None)
    is_one = not isinstance(part, type) and callable(getattr(part, "assign", None))
    return own if is_one and isinstance(own, str) and own else None


def read_optional_flag(name: str, value: object) -> bool | None:
    """Return a flag that can also be None."""
    if value is not None and not isinstance(value, bool):
        raise ConfigurationError(name, value, "expected True, False or None")
    return value


def read_partitioner(name: str, value: object) -> Partitioner | Literal["round_robin"] | None:
    """Return a function that chooses partitions, or the name of one."""
    if value is not None and value != ROUND_ROBIN and not callable(value):
        known = listed(value, [ROUND_ROBIN], "or a function that takes a key and the number of partitions")
        raise ConfigurationError(name, value, f"expected {known}")
    return cast('Partitioner | Literal["round_robin"] | None', value)


def read_metrics_reporter(name: str, value: object) -> MetricsReporter | None:
    """Return a function that receives metrics."""
    if value is not None and not callable(value):
        raise ConfigurationError(name, value, "expected a function that takes a mapping")
    return cast("MetricsReporter | None", value)


def check_encodable(name: str, value: str) -> None:
    """Reject text that cannot be encoded as UTF-8."""
    found = _SURROGATE.search(value)
    if found is not None:
        raise ConfigurationError(name, value, f"{found[0]!r} cannot be encoded as UTF-8: it is a surrogate")


def read_wire_text(name: str, value: object) -> str | None:
    """Return text that can be written into a request, or None."""
    value = read_text(name, value)
    if value is None:
        return None
    check_encodable(name, value)
    size_bytes = len(value.encode())
    if size_bytes > MAX_STRING_BYTES:
        reason = f"takes {size_bytes} bytes as UTF-8; the limit is {MAX_STRING_BYTES}"
        raise ConfigurationError(name, f"{value[:_SHOWN_CHARACTERS]}…", reason)
    return value


def name_or_none(without: str) -> Callable[[str, object], str | None]:
    """Return a reader for an optional name; `without` says what leaving out the option does."""

    def read(name: str, value: object) -> str | None:
        if value == "":
            raise ConfigurationError(name, value, f"expected a name; leave the option out to {without}")
        return read_wire_text(name, value)

    return read


def read_group_id(name: str, value: object) -> str:
    """Return the id of a group that a client cannot do without."""
    group_id = read_wire_text(name, value)
    if not group_id:
        raise ConfigurationError(name, value, "expected a name that is not empty")
    return group_id


def read_group_instance_id(name: str, value: object) -> str | None:
    """Return the name of a static member."""
    value = read_text(name, value)
    if value is not None and not is_legal_name(value):  # brokers check it like a topic name
        raise ConfigurationError(name, value, f"expected {LEGAL_NAME}")
    return value


def read_zookeeper_connect(name: str, value: object) -> str | None:
    """Return the servers of a ZooKeeper ensemble, followed by a chroot if there is one."""
    value = read_text(name, value)
    if value is not None:
        parse_connect(name, value)
    return value
