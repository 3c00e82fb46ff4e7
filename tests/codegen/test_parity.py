"""The schemas agree with Apache Kafka 4.3.0: every message, version, field, error code, API and number.

Method: compare the tables next to the golden vectors, which Kafka's own classes printed, with the schemas and with the
code generated from them. Names are compared in snake_case, since the case of the first letter has no meaning; a default
of null in JSON means no default. Messages with removed versions are compared in their current versions;
`tests/conformance` compares the removed ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.spec import NO_DEFAULT, PRIMITIVES, FieldSpec, MessageSpec, SchemaFile, snake_case
from kafkawire.codegen.tables import Constant, Enumeration, load_enumerations, load_errors
from kafkawire.codegen.versions import NONE, Versions
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.tables import enums
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import INVALID_METADATA, RETRIABLE, ErrorCode

VECTORS = SCHEMAS.parent / "conformance" / "vectors"


def table(name: str) -> Any:
    return json.loads((VECTORS / name).read_text())


PARITY = {message["name"]: message for message in table("schema_parity.json")}
KAFKA = table("api_keys.json")
LIVE_APIS = [api for api in KAFKA["api_keys"] if api["has_valid_version"]]

ENUMERATIONS, CONSTANTS = load_enumerations(SCHEMAS / "enumerations.yaml")

#: Names that no Kafka class in the tables has.
OUR_OWN = {
    "ACKNOWLEDGE_GAP",
    "Acks",
    "CONNECTION_CREATION_RATE",
    "CONSUMER_BYTE_RATE",
    "CONSUMER_PROTOCOL_TYPE",
    "CONTROLLER_MUTATION_RATE",
    "CREATE_PARTITIONS_FIRST_WITH_STRICT_QUOTA",
    "CREATE_TOPICS_FIRST_WITH_STRICT_QUOTA",
    "DELETE_TOPICS_FIRST_WITH_STRICT_QUOTA",
    "DeliveryState",  # `RecordState` of a server's class, which the tables of Kafka do not have
    "END_TXN_LAST_BEFORE_TV_2",
    "KAFKA_RELEASE",
    "LEADER_DURING_DELETION",  # `LeaderAndIsr.LeaderDuringDelete` of Apache Kafka 3.9, which 4.0 removed
    "LIST_OFFSETS_FIRST_WITH_EARLIEST_LOCAL",
    "LIST_OFFSETS_FIRST_WITH_EARLIEST_PENDING_UPLOAD",
    "LIST_OFFSETS_FIRST_WITH_LATEST_TIERED",
    "LIST_OFFSETS_FIRST_WITH_MAX_TIMESTAMP",
    "METADATA_FIRST_WITH_RELIABLE_EPOCHS",
    "METADATA_FRAME_VERSION",
    "OffsetTimestamp",
    "PRODUCE_LAST_BEFORE_TV_2",
    "PRODUCER_BYTE_RATE",
    "QUOTA_CLIENT_ID",
    "QUOTA_IP",
    "QUOTA_USER",
    "QuotaMatchType",
    "REQUEST_PERCENTAGE",
    "SCRAM_ITERATIONS_MAX",
    "SCRAM_ITERATIONS_MIN",
    "ShareAcquireMode",  # of a server's class, which the tables of Kafka do not have
    "TOPIC_NAME_CHARACTERS_MAX",
    "TOPIC_NAME_PATTERN",
    "TRANSACTION_VERSION_FEATURE",
    "TransactionVersion",
    "TXN_OFFSET_COMMIT_LAST_BEFORE_TV_2",
    "UNKNOWN_OFFSET",
}


@pytest.fixture(scope="module")
def messages(schemas: dict[Path, SchemaFile]) -> dict[str, MessageSpec]:
    return {message.name: message for file in schemas.values() for message in file.messages}


def test_the_same_messages(messages: dict[str, MessageSpec]) -> None:
    removed = {"ListClientMetricsResourcesRequest", "ListClientMetricsResourcesResponse"}
    removed |= {"ShareGroupPartitionMetadataKey", "ShareGroupPartitionMetadataValue"}
    assert messages.keys() - PARITY.keys() == removed
    assert PARITY.keys() <= messages.keys()


def test_message(subtests: pytest.Subtests, messages: dict[str, MessageSpec]) -> None:
    for name in PARITY:
        with subtests.test(name=name):
            message, kafka = messages[name], PARITY[name]
            assert message.kind == kafka["type"]
            assert message.key == kafka.get("api_key")
            assert str(message.versions) == kafka["valid_versions"]
            if message.removed:
                message = living(message)
            assert message.flexible == Versions.parse(kafka.get("flexible_versions", "none"))
            assert message.deprecated == Versions.parse(kafka.get("deprecated_versions", "none"))
            assert message.unstable == kafka.get("latest_version_unstable", False)
            assert list(message.listeners) == kafka.get("listeners", [])
            expected = [theirs(field) for field in kafka["fields"]]
            if message.removed:
                expected = [
                    within(message.versions, field) for field in expected if field["versions"] & message.versions
                ]
            assert list(ours(message, message.fields, "")) == expected


def living(message: MessageSpec) -> MessageSpec:
    """Return a message with a history, narrowed to its current versions."""

    def fields(items: tuple[FieldSpec, ...]) -> tuple[FieldSpec, ...]:
        return tuple(
            replace(
                item,
                versions=item.versions & message.versions,
                nullable=item.nullable & message.versions,
                tagged=item.tagged & message.versions,
                ignorable=item.ignorable and not message.versions <= item.versions,
                fields=None if item.fields is None else fields(item.fields),
            )
            for item in items
            if item.versions & message.versions
        )

    structs = tuple(replace(struct, fields=fields(struct.fields)) for struct in message.structs)
    flexible = message.flexible if message.versions else NONE
    return replace(message, flexible=flexible, fields=fields(message.fields), structs=structs)


def within(versions: Versions, field: dict[str, Any]) -> dict[str, Any]:
    """Return a line from Kafka's table, narrowed in the same way."""
    narrowed = {key: field[key] & versions for key in ("versions", "nullable", "tagged")}
    return field | narrowed | {"ignorable": field["ignorable"] and not versions <= field["versions"]}


def ours(message: MessageSpec, fields: tuple[FieldSpec, ...], prefix: str) -> Iterator[dict[str, object]]:
    """Yield a structure's fields and the fields inside them, in the form that `theirs` returns."""
    for field in fields:
        path = prefix + field.name
        yield {
            "path": path,
            "type": f"{'[]' if field.array else ''}{field.type}",
            "versions": field.versions,
            "nullable": field.nullable,
            "tagged": field.tagged,
            "tag": field.tag,
            "flexible": field.flexible,
            "default": field.default,
            "ignorable": field.ignorable,
            "map_key": field.map_key,
            "zero_copy": field.zero_copy,
            "entity": field.entity,
        }
        if field.type not in PRIMITIVES:
            inner = field.fields or message.struct_fields(field.type)
            yield from ours(message, inner, f"{path}{'[]' if field.array else ''}.")


def theirs(field: dict[str, Any]) -> dict[str, Any]:
    """Return one line from Kafka's table, with its texts parsed."""
    tagged = Versions.parse(field.get("tagged_versions", "none"))
    entity = field.get("entity_type")
    return {
        "path": ".".join(map(snake_case, field["path"].split("."))),
        "type": field["type"],
        "versions": Versions.parse(field["versions"]) if "versions" in field else tagged,
        "nullable": Versions.parse(field.get("nullable_versions", "none")),
        "tagged": tagged,
        "tag": field.get("tag"),
        "flexible": NONE if "flexible_versions" in field else None,
        "default": default(field),
        "ignorable": field.get("ignorable", False),
        "map_key": field.get("map_key", False),
        "zero_copy": field.get("zero_copy", False),
        "entity": None if entity is None else snake_case(entity),
    }


def default(field: dict[str, Any]) -> object:
    value, kind = field.get("default"), field["type"]
    if value is None or (value == "" and kind != "string"):
        return NO_DEFAULT
    if value == "null":
        return None
    if kind == "string":
        return value
    if kind == "bool":
        return value in (True, "true")
    return float(value) if kind == "float64" else int(str(value), 0)


def test_generated_class(subtests: pytest.Subtests, messages: dict[str, MessageSpec]) -> None:
    for name in [name for name, kafka in PARITY.items() if kafka["valid_versions"] != "none"]:
        with subtests.test(name=name):
            message, cls = messages[name], message_class(name)
            assert cls.SCHEMA.versions == (message.versions.first, message.versions.last)
            assert [field.name for field in cls.FIELDS] == [field.name for field in message.fields]
            assert cls() == cls()


def test_error_codes() -> None:
    kafka = {error["name"]: error for error in table("error_codes.json")}
    errors = {error.name: error for error in load_errors(SCHEMAS / "errors.yaml")}
    assert {name: error.code for name, error in errors.items()} == {
        name: error["code"] for name, error in kafka.items()
    }
    assert {code.name: code.value for code in ErrorCode} == {name: error["code"] for name, error in kafka.items()}
    for flag, generated in (("retriable", RETRIABLE), ("invalid_metadata", INVALID_METADATA)):
        expected = {name for name, error in kafka.items() if error[flag]}
        assert {name for name, error in errors.items() if getattr(error, flag)} == expected
        assert {code.name for code in generated} == expected


@pytest.mark.parametrize("item", [item for item in ENUMERATIONS if item.source], ids=lambda item: item.name)
def test_enumeration(item: Enumeration) -> None:
    kafka = {entry["name"].upper(): number(entry) for entry in KAFKA["enumerations"][item.source]}
    assert item.values == kafka
    assert {member.name: member.value for member in getattr(enums, item.name)} == kafka


def number(entry: dict[str, Any]) -> int:
    found = (entry.get(key) for key in ("id", "code", "type_id", "value"))
    return next(int(value) for value in found if isinstance(value, int))


def test_offset_timestamps() -> None:
    for member in enums.OffsetTimestamp:
        name = member.name if member.name.endswith("TIMESTAMP") else f"{member.name}_TIMESTAMP"
        assert KAFKA["constants"]["ListOffsetsRequest"][name] == member.value


@pytest.mark.parametrize("item", [item for item in CONSTANTS if item.source], ids=lambda item: item.name)
def test_constant(item: Constant) -> None:
    owner, _, name = item.source.partition(".")
    assert KAFKA["constants"][owner][name] == item.value == getattr(enums, item.name)


def test_what_has_no_source() -> None:
    assert {item.name for item in (*ENUMERATIONS, *CONSTANTS) if not item.source} == OUR_OWN
    assert f"{KAFKA['constants']['Topic']['LEGAL_CHARS']}+" == enums.TOPIC_NAME_PATTERN


def test_transaction_versions() -> None:
    feature = next(each for each in KAFKA["features"] if each["name"] == enums.TRANSACTION_VERSION_FEATURE)
    assert [level["level"] for level in feature["levels"]] == list(enums.TransactionVersion)


def test_api_keys() -> None:
    assert {key.name: key.value for key in ApiKey} == {api["name"]: api["id"] for api in KAFKA["api_keys"]}
    assert {key.name for key in APIS} == {api["name"] for api in LIVE_APIS}


@pytest.mark.parametrize(
    "api", [api for api in KAFKA["api_keys"] if api["has_valid_version"]], ids=lambda api: api["name"]
)
def test_api(api: dict[str, Any]) -> None:
    ours = APIS[ApiKey(api["id"])]
    assert ours.name == api["message_name"]
    assert ours.versions == (api["oldest_version"], api["latest_version"])
    assert ours.unstable == api["latest_version_unstable"]
    assert set(ours.listeners) == set(api["listeners"])
    for version in api["versions"]:
        assert ours.request_header_version(version["version"]) == version["request_header_version"]
        assert ours.response_header_version(version["version"]) == version["response_header_version"]
