"""Check the generated tables against Apache Kafka's: fields of every message, error codes, APIs and enumerations.

Kafka's tables are next to the vectors: `schema_parity.json`, `error_codes.json`, `api_keys.json`, `coverage.json`.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafkawire.sdk.protocol.messages import MODULES
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.schema import DEFAULT, Field, Message
from kafkawire.sdk.protocol.tables import enums
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import INVALID_METADATA, RETRIABLE, ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.protocol.versions import VersionRange

__all__ = ["check_api_keys", "check_coverage", "check_error_codes", "check_schema_parity"]

Case = tuple[str, str | None]

#: Names of enumerations that differ from Kafka's.
_ENUMERATIONS = {
    "FindCoordinatorRequest.CoordinatorType": "CoordinatorType",
    "ConfigResource.Type": "ConfigResourceType",
    "DescribeConfigsResponse.ConfigSource": "ConfigSource",
    "DescribeConfigsResponse.ConfigType": "ConfigType",
    "AlterConfigOp.OpType": "AlterConfigOperation",
    "FeatureUpdate.UpgradeType": "FeatureUpgradeType",
    "StreamsGroupHeartbeatResponse.Status": "StreamsGroupStatus",
    "TransactionState(coordinator)": "TransactionState",
}

#: Enumerations whose numbers are never sent: Kafka sends the names, or the numbers are internal to its classes.
_NOT_ON_THE_WIRE = {
    "AutoOffsetResetStrategy.StrategyType",
    "ClassicGroupState",
    "ClientTelemetryState",
    "CompressionType",
    "GroupState",
    "GroupType",
    "TimestampType",
    "TransactionState",
}


def check_schema_parity(table: list[dict[str, Any]]) -> Iterator[Case]:
    """Compare each message's versions and fields; yield (message, difference or None)."""
    for entry in table:
        versions = _range(entry["valid_versions"])
        if versions is None:
            yield entry["name"], _living(entry["name"])
        else:
            yield entry["name"], _compare_message(entry, versions)


def _living(name: str) -> str | None:
    """Return the current versions of a message; None if there are none."""
    lives = name in MODULES and message_class(name).SCHEMA.versions
    return f"in {MODULES[name]}, but removed" if lives else None


def _compare_message(entry: dict[str, Any], versions: VersionRange) -> str | None:
    name = entry["name"]
    if name not in MODULES:
        return "there is no such message"
    message = message_class(name)
    theirs = (entry["type"], entry.get("api_key"), versions, _within(entry.get("flexible_versions"), versions))
    schema = message.SCHEMA
    ours = (schema.kind, schema.key, schema.versions, _both(schema.flexible, versions))
    if theirs != ours:
        return f"kind, key, versions, flexible: {ours}, but expected {theirs}"
    # If a message has removed versions, the range of a field that exists in all current versions covers older ones too.
    history = bool(schema.removed)
    expected = {
        _path(field["path"]): _expected_field(field, versions, history)
        for field in entry["fields"]
        if not history or _within(field["versions"], versions)
    }
    found = dict(_fields(message, "", versions, history))
    for path in expected.keys() | found.keys():
        if expected.get(path) != found.get(path):
            return f"{path}: {found.get(path)}, but expected {expected.get(path)}"
    return None


def _fields(
    owner: type[Message], prefix: str, versions: VersionRange, history: bool
) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Yield the fields of a structure, except those that exist only in removed versions."""
    for field in owner.FIELDS:
        if history and not field.versions & versions:
            continue
        path = prefix + field.name
        yield path, _found_field(field, versions, history)
        if isinstance(field.type, type):
            yield from _fields(field.type, f"{path}.", versions, history)


def _found_field(field: Field, versions: VersionRange, history: bool) -> tuple[object, ...]:
    kind = field.type if isinstance(field.type, str) else field.type.__name__
    nothing = (0, -1)
    present = field.versions & versions or nothing
    return (
        f"{'[]' if field.array else ''}{kind}",
        present,
        _both(field.nullable, versions) or nothing,
        (field.tag, _both(field.tagged, versions) or nothing) if field.tag is not None else None,
        "structure" if field.default is DEFAULT else field.default,
        None if history and present == versions else field.ignorable,
    )


def _expected_field(field: dict[str, Any], versions: VersionRange, history: bool) -> tuple[object, ...]:
    tagged = _within(field.get("tagged_versions"), versions)
    nothing = (0, -1)
    present = _within(field["versions"], versions) or nothing
    return (
        field["type"],
        present,
        _within(field.get("nullable_versions"), versions) or nothing,
        (field["tag"], tagged or nothing) if "tag" in field else None,
        _expected_default(field),
        None if history and present == versions else bool(field.get("ignorable", False)),
    )


def _expected_default(field: dict[str, Any]) -> object:
    """Return the default as a value; the text "null" means None, and a JSON null means no default."""
    kind, value = field["type"], field.get("default")
    if value == "null":
        return None
    if kind.startswith("[]"):
        return ()
    if kind == "string":
        return value or ""
    if kind == "bool":
        return str(value).lower() == "true"
    if kind == "float64":
        return float(value or 0)
    simple = {"uuid": ZERO_UUID, "bytes": b"", "records": None}
    if kind in simple:
        return simple[kind]
    return "structure" if kind[0].isupper() else int(str(value or 0), 0)


def _range(text: str | None) -> VersionRange | None:
    if text in (None, "", "none"):
        return None
    match = re.fullmatch(r"(\d+)(\+|-(\d+))?", text or "")
    if match is None:
        raise ValueError(f"{text!r} is not a version range")
    first = int(match[1])
    return VersionRange(first, 32767 if match[2] == "+" else int(match[3] or first))


def _within(text: str | None, versions: VersionRange) -> VersionRange | None:
    found = _range(text)
    if found is None:
        return None
    return found & versions or None


def _both(one: VersionRange | None, other: VersionRange) -> VersionRange | None:
    """Return the versions in both ranges; None if there are none."""
    return None if one is None else one & other or None


def _path(path: str) -> str:
    return ".".join(
        re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", part.replace("[]", "")).lower()
        for part in path.split(".")
    )


def check_error_codes(table: list[dict[str, Any]]) -> Iterator[Case]:
    """Compare each error code; yield (name, difference or None)."""
    for entry in table:
        code = next((code for code in ErrorCode if code == entry["code"]), None)
        found = None if code is None else (code.name, code in RETRIABLE, code in INVALID_METADATA)
        expected = (entry["name"], entry["retriable"], entry["invalid_metadata"])
        yield entry["name"], None if found == expected else f"{found}, but expected {expected}"
    surplus = [code.name for code in ErrorCode if code not in {entry["code"] for entry in table}]
    yield "no others", f"not in Kafka: {surplus}" if surplus else None


def check_api_keys(table: dict[str, Any]) -> Iterator[Case]:
    """Compare each API's versions and header versions, and each enumeration; yield (name, difference or None)."""
    for entry in table["api_keys"]:
        yield entry["name"], _compare_api(entry)
    enumerations: dict[str, list[dict[str, Any]]] = table["enumerations"]
    for name, members in enumerations.items():
        if name not in _NOT_ON_THE_WIRE:
            yield name, _compare_enumeration(_ENUMERATIONS.get(name, name), members)


def _compare_api(entry: dict[str, Any]) -> str | None:
    key = next((key for key in ApiKey if key == entry["id"]), None)
    if key is None:
        return f"the key {entry['id']} is missing"
    if not entry["has_valid_version"]:
        return "is listed, although it was removed" if key in APIS else None
    api = APIS[key]
    ours = [
        (version, api.request_header_version(version), api.response_header_version(version))
        for version in api.versions.numbers()
    ]
    theirs = [
        (item["version"], item["request_header_version"], item["response_header_version"]) for item in entry["versions"]
    ]
    if (api.name, set(api.listeners), api.unstable) != (
        entry["message_name"],
        set(entry["listeners"]),
        entry["latest_version_unstable"],
    ):
        return f"{api.name} on {api.listeners}, but expected {entry['message_name']} on {entry['listeners']}"
    return None if ours == theirs else f"versions with header versions {ours}, but expected {theirs}"


def _compare_enumeration(name: str, members: list[dict[str, Any]]) -> str | None:
    enumeration = getattr(enums, name, None)
    if enumeration is None:
        return f"there is no enumeration {name}"
    ours = {member.name: int(member) for member in enumeration}
    theirs = {}
    for member in members:
        number = next(member[key] for key in ("type_id", "id", "code", "value") if isinstance(member.get(key), int))
        theirs[member["name"]] = int(number)
    return None if ours == theirs else f"{ours}, but expected {theirs}"


def check_coverage(table: dict[str, Any], folder: Path) -> Iterator[Case]:
    """Check that every file has the number of lines that the generator counted; yield (file, difference or None)."""
    for name, entry in table["files"].items():
        path = folder / name
        if not path.exists():
            yield name, "is missing"
        elif name.endswith(".gz"):
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                count = sum(1 for _ in lines)
            yield name, None if count == entry["lines"] else f"{count} lines, but expected {entry['lines']}"
        else:
            yield name, None
