"""Content is accepted or refused as in Kafka, any value survives a round trip, and damage is named and bounded.

Method: compare with the verdicts of Kafka's own decoders on thousands of nodes with one changed value; encode and
decode values for all nodes, which hypothesis builds from the schema; decode input that is truncated at each byte, has
flipped bytes, or is oversized.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.versions import OPEN
from kafkawire.codegen.znodes import ContentSpec, StructureSpec, ZnodeFieldSpec, load_registry
from kafkawire.sdk.errors import EncodeError, KafkaWireError
from kafkawire.sdk.protocol.tables import znodes
from kafkawire.sdk.protocol.tables.znodes import (
    ACL_CHANGE,
    BROKER,
    BROKERS,
    CLUSTER_ID,
    CONFIG_CHANGE,
    CONSUMER_OFFSET,
    CONTROLLER,
    CONTROLLER_EPOCH,
    DELEGATION_TOKEN,
    FEATURE,
    MIGRATION,
    PARTITION_REASSIGNMENTS,
    PARTITION_STATE,
    TOPIC,
    TOPIC_CONFIG,
    ZNODES,
    ClusterId,
    ConfigChange,
    ControllerRegistration,
    DelegationToken,
    EntityConfig,
    PartitionState,
    TopicAssignment,
)
from kafkawire.sdk.registry.content import CONTENT_BYTES_MAX, NESTING_MAX, DamagedZnode

HERE = Path(__file__).parent
ACCEPTED = json.loads((HERE / "kafka_accepts.json").read_text("utf-8"))
WRITTEN = json.loads((HERE / "kafka_znodes.json").read_text("utf-8"))
REGISTRY = load_registry(SCHEMAS / "registry.yaml")

STATE = b'{"controller_epoch":6,"leader":1,"version":1,"leader_recovery_state":1,"leader_epoch":2,"isr":[3,4]}'


class Deviation(NamedTuple):
    """A disagreement with Kafka: the node, the place, whether Kafka accepts the content, and why that is fine."""

    node: str
    place: str
    is_accepted: bool
    reason: str


DEVIATIONS = [
    Deviation("TOPIC", r'\["(adding|removing)_replicas"\]', True, "Kafka looks up the partitions that it knows"),
    Deviation("TOPIC_CONFIG", r'\["config"\]', True, "Kafka takes anything that is not an object for an empty one"),
    Deviation("PARTITION_REASSIGNMENTS|EXTENDED_ACL_CHANGE", ".*", True, "Kafka converts between types"),
    Deviation("PARTITION_REASSIGNMENTS", r'\["version"\]', False, "Kafka does not use the version"),
    Deviation("BROKER", r'\["(listener_security_protocol_map|endpoints).*', False, "the broker judges listeners"),
    Deviation("FEATURE", r'\["features".*', False, "the broker judges ranges, and version 2 has no lowest one"),
    Deviation("ACL|DELEGATION_TOKEN|EXTENDED_ACL_CHANGE", ".*", False, "the authorizer judges names"),
]


def damage(node: Any, content: bytes) -> DamagedZnode | None:
    """Return the error for a node's content, or None if the content is accepted."""
    try:
        node.decode(content, "/x")
    except DamagedZnode as error:
        return error
    return None


def is_accepted(node: str, content: str) -> bool:
    return damage(ZNODES[node], content.encode()) is None


def with_other_values(content: str, place: list[str | int]) -> Iterator[str]:
    """Yield content with each replacement for the value at a place."""
    for replacement in ACCEPTED["replacements"]:
        changed = deepcopy(json.loads(content))
        around = changed
        for step in place[:-1]:
            around = around[step]
        around[place[-1]] = "@"
        if replacement == "<missing>":
            del around[place[-1]]
        yield json.dumps(changed).replace('"@"', replacement)


def is_known(node: str, place: str, accepted: bool) -> bool:
    """Return whether a disagreement with Kafka is intentional."""
    return any(
        re.fullmatch(each.node, node) and re.fullmatch(each.place, place) and each.is_accepted == accepted
        for each in DEVIATIONS
    )


@pytest.mark.parametrize(("node", "content", "places"), ACCEPTED["nodes"])
def test_what_kafka_accepts(node: str, content: str, places: dict[str, str]) -> None:
    assert is_accepted(node, content)
    found = []
    for place, verdicts in places.items():
        contents = with_other_values(content, json.loads(place))
        for changed, verdict in zip(contents, verdicts, strict=True):
            if is_accepted(node, changed) != (verdict == "1") and not is_known(node, place, verdict == "1"):
                found.append((place, changed, verdict))
    assert found == []


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_a_deviation_exists(deviation: Deviation) -> None:
    assert any(
        is_accepted(node, changed) != deviation.is_accepted and (verdict == "1") == deviation.is_accepted
        for node, content, places in ACCEPTED["nodes"]
        if re.fullmatch(deviation.node, node)
        for place, verdicts in places.items()
        if re.fullmatch(deviation.place, place)
        for changed, verdict in zip(with_other_values(content, json.loads(place)), verdicts, strict=True)
    )


@pytest.mark.parametrize(("node", "content", "accepted"), ACCEPTED["contents"])
def test_forms_that_kafka_accepts(node: str, content: str, accepted: bool) -> None:
    assert is_accepted(node, content) == accepted


def test_the_last_of_two_equal_keys_counts() -> None:
    assert CLUSTER_ID.decode(b'{"version":"1","id":"a","id":"b"}') == ClusterId("b")
    with pytest.raises(DamagedZnode, match="id: 1 is not text"):
        CLUSTER_ID.decode(b'{"version":"1","id":"a","id":1}')


def test_text_in_json_is_escaped_as_by_jackson() -> None:
    """The recorded content contains a character of each kind; this test adds unpaired surrogates."""
    config = EntityConfig({"k\ud800": "\udfff\x7f\x80\u2028"})
    content = TOPIC_CONFIG.encode(config)
    assert content == '{"version":1,"config":{"k\\uD800":"\\uDFFF\x7f\x80\u2028"}}'.encode()
    assert TOPIC_CONFIG.decode(content) == EntityConfig({"k?": "?\x7f\x80\u2028"}), "a surrogate must become ?"


# Any value survives a round trip.

NUMBERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "text_int64": 64}
STRUCTURES = {spec.name: spec for spec in REGISTRY.structures}


def values_of(spec: ContentSpec | StructureSpec, version: int) -> st.SearchStrategy[Any]:
    """Return the values of a content type that can be written in a version."""
    make: Any = getattr(znodes, spec.name)
    fields = {
        each.name: field_values(each, version)
        for each in spec.fields
        if each.name in make._fields and each.name != "version"
    }
    if isinstance(spec, ContentSpec) and "version" in make._fields:
        fields["version"] = st.just(version)
    return st.builds(make, **fields)


def field_values(field: ZnodeFieldSpec, version: int) -> st.SearchStrategy[Any]:
    default = {dict: {}, list: ()}.get(type(field.default), field.default)
    if version not in field.versions:
        return st.just(default)
    if field.one_of:
        return st.sampled_from(field.one_of)
    values = scalar_values(field, version)
    if field.type.is_array:
        values = st.lists(values, max_size=3).map(tuple)
    if field.type.keys:
        keys = st.text() if field.type.keys == "string" else st.integers(-(2**31), 2**31 - 1)
        values = st.dictionaries(keys, values, max_size=20)
    is_optional = field.type.is_nullable or field.is_omitted
    return values | st.just(default) if is_optional else values


def scalar_values(field: ZnodeFieldSpec, version: int) -> st.SearchStrategy[Any]:
    name = field.type.name
    if bits := NUMBERS.get(name):
        return st.integers(-(1 << bits - 1) if field.min is None else field.min, (1 << bits - 1) - 1)
    if name in STRUCTURES:
        return values_of(STRUCTURES[name], version)
    return {
        "string": st.text(),
        "sanitized": st.text(),
        "uuid": st.binary(min_size=16, max_size=16),
    }[name]


CONTENTS = [(spec, version) for spec in REGISTRY.contents for version in spec.writes]


@pytest.mark.parametrize(("spec", "version"), CONTENTS, ids=[f"{spec.name} {version}" for spec, version in CONTENTS])
def test_any_value_comes_back(spec: ContentSpec, version: int) -> None:
    (node, *_) = (ZNODES[each.name] for each in REGISTRY.znodes if each.content == spec.name)

    @given(values_of(spec, version))
    def check(value: Any) -> None:
        content = node.encode(value)
        assert node.decode(content, "/x") == value
        assert json.loads(content)["version"] in (version, str(version))

    check()


def test_every_content_is_of_a_node() -> None:
    assert {spec.name for spec in REGISTRY.contents} <= {each.content for each in REGISTRY.znodes}


@given(st.integers(-(2**63), 2**63 - 1), st.text(st.characters(exclude_categories=("Cs",)), min_size=1))
def test_any_text_comes_back(number: int, text: str) -> None:
    assert CONSUMER_OFFSET.decode(CONSUMER_OFFSET.encode(number)) == number
    assert ACL_CHANGE.decode(ACL_CHANGE.encode(text)) == text


# Damage.

SAMPLES = {name: content.encode() for name, content in WRITTEN["encoded"] if len(content) < 2000}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_cut_at_every_byte(name: str) -> None:
    content, node = SAMPLES[name], ZNODES[name]
    for end in range(len(content)):
        error = damage(node, content[:end])
        if error is None:
            assert name == "ACL_CHANGE" or (end == 0 and name in ("ACL", "EXTENDED_ACL", "TOPIC_CONFIG"))
        else:
            assert str(error).startswith("/x: ")


@given(st.sampled_from(sorted(SAMPLES)), st.integers(0, 5000), st.integers(0, 255))
def test_another_byte(name: str, position: int, byte: int) -> None:
    content = bytearray(SAMPLES[name])
    content[position % len(content)] = byte
    error = damage(ZNODES[name], bytes(content))
    assert error is None or error.path == "/x"


@given(st.sampled_from(sorted(ZNODES)), st.binary(max_size=60))
def test_any_bytes(name: str, content: bytes) -> None:
    error = damage(ZNODES[name], content)
    assert error is None or error.path == "/x"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(st.sampled_from(CONTENTS), st.data())
def test_any_json_in_any_field(case: tuple[ContentSpec, int], data: st.DataObject) -> None:
    spec, version = case
    (node, *_) = (ZNODES[each.name] for each in REGISTRY.znodes if each.content == spec.name)
    fields = data.draw(st.fixed_dictionaries({}, optional={each.key: JSON for each in spec.fields}))
    error = damage(node, json.dumps({"version": version, **fields}).encode())
    assert error is None or error.path == "/x"


def test_the_size_is_limited() -> None:
    for node in (TOPIC, CONTROLLER_EPOCH):
        with pytest.raises(
            DamagedZnode, match=f"^/x: there are {CONTENT_BYTES_MAX + 1} bytes, but the limit is {CONTENT_BYTES_MAX}$"
        ):
            node.decode(b" " * (CONTENT_BYTES_MAX + 1), "/x")
    padding = b" " * (CONTENT_BYTES_MAX - len(STATE))
    assert PARTITION_STATE.decode(padding + STATE).isr == (3, 4)
    with pytest.raises(EncodeError, match=rf"^there are \d+ bytes, but ZooKeeper accepts only {CONTENT_BYTES_MAX}$"):
        TOPIC.encode(TopicAssignment(dict.fromkeys(range(70_000), (1, 2, 3))))


def test_the_nesting_is_limited() -> None:
    def nested(depth: int, text: str = "") -> bytes:
        inner = "[" * (depth - 1) + "]" * (depth - 1)
        return f'{{"version":"1","id":"a"{text},"x":{inner}}}'.encode()

    assert CLUSTER_ID.decode(nested(NESTING_MAX)) == ClusterId("a")
    many = ',"y":[' + ",".join(["[]"] * 1000) + r'],"z":"[[\"[{' + "[" * 100 + '"'
    assert CLUSTER_ID.decode(nested(NESTING_MAX, many)) == ClusterId("a")
    for text in ("", many):
        with pytest.raises(
            DamagedZnode, match=f"^/x: objects and arrays are nested {NESTING_MAX + 1} levels deep; the limit is 64$"
        ):
            CLUSTER_ID.decode(nested(NESTING_MAX + 1, text), "/x")
    with pytest.raises(DamagedZnode, match=r"^/x: objects and arrays are nested 500000 levels deep; the limit is 64$"):
        CLUSTER_ID.decode(b"[" * 500_000, "/x")


@pytest.mark.parametrize(
    "content",
    [
        b'"' * 1_000_000, b'"\\' * 500_000, b'[["' + b'\\"' * 500_000, b"[]" * 500_000, b'{"' * 500_000,
        b"9" * 1_000_000, b"-" * 1_000_000, b"\xff" * 1_000_000, b'{"a":' + b"9" * 1_000_000 + b"}",
    ],
    ids=lambda content: repr(content[:4]),
)  # fmt: skip
def test_huge_damage_is_refused_at_once(content: bytes) -> None:
    with pytest.raises(DamagedZnode, match=r"^/x: "):
        TOPIC.decode(content, "/x")


ERRORS: list[tuple[Any, bytes | None, str, str]] = [
    (PARTITION_STATE, None, "", "has no content"),
    (PARTITION_STATE, b"", "", "has no content"),
    (PARTITION_STATE, b"\xff", "", "not UTF-8: invalid start byte at byte 0"),
    (PARTITION_STATE, b"{", "", "not JSON: Expecting property name enclosed in double quotes at character 1"),
    (PARTITION_STATE, b"[1]", "", "[1] is not an object"),
    (PARTITION_STATE, b"{}", "controller_epoch", "is missing"),
    (PARTITION_STATE, STATE.replace(b"[3,4]", b'[3,"4"]'), "isr[1]", "'4' is not an int32"),
    (PARTITION_STATE, STATE.replace(b"[3,4]", b"7"), "isr", "7 is not an array"),
    (PARTITION_STATE, STATE.replace(b'leader":1', b'leader":1.0'), "leader", "1.0 is not an int32"),
    (PARTITION_STATE, STATE.replace(b'leader":1', b'leader":true'), "leader", "True is not an int32"),
    (PARTITION_STATE, STATE.replace(b'state":1', b'state":2'), "leader_recovery_state", "2 is not one of 0, 1"),
    (PARTITION_STATE, STATE.replace(b'state":1', b'state":200'), "leader_recovery_state", "200 is not an int8"),
    (TOPIC, b'{"partitions":{"x":[1]}}', "partitions.x", "'x' is not an int32 in decimal digits"),
    (TOPIC, b'{"partitions":{"0":[1,null]}}', "partitions.0[1]", "None is not an int32"),
    (TOPIC, b'{"partitions":[]}', "partitions", "[] is not an object"),
    (TOPIC, b'{"topic_id":"x"}', "topic_id", "'x' of 1 characters is not a UUID: 22 of URL-safe base64 are expected"),
    (CONTROLLER, b'{"brokerid":"1"}', "brokerid", "'1' is not an int32"),
    (BROKER, b"{}", "version", "is missing"),
    (BROKER, b'{"version":0}', "version", "0 is not a known version; expected 1 and later ones"),
    (BROKER, b'{"version":"5"}', "version", "'5' is not a known version; expected 1 and later ones"),
    (BROKER, b'{"version":5,"features":{"f":{"min_version":1}}}', "features.f.max_version", "is missing"),
    (BROKER, b'{"version":5,"features":{"f":7}}', "features.f", "7 is not an object"),
    (FEATURE, b'{"version":3}', "version", "3 is not a known version; expected 1 to 2"),
    (FEATURE, b'{"version":2,"features":{"f":{"max_version_level":0}}}', "features.f.max_version_level", "0 is less "
     "than 1"),
    (MIGRATION, b'{"version":1}', "version", "1 is not a known version; expected 0"),
    (CONFIG_CHANGE, b'{"version":1,"entity_type":"users"}', "entity_type", "'users' is not one of topics, clients"),
    (PARTITION_REASSIGNMENTS, b'{"x":1}', "", "has the unknown field 'x', which Kafka does not accept"),
    (DELEGATION_TOKEN, b'{"version":1,"issueTimestamp":1,"renewers":["%"]}', "renewers[0]", "'%' is not a "
     "sanitized name: no two hexadecimal digits follow the percent sign at character 0"),
    (znodes.PRODUCER_ID_BLOCK, b'{"broker":1,"block_start":"x"}', "block_start", "'x' is not an int64 in "
     "decimal digits"),
    (znodes.PRODUCER_ID_BLOCK, b'{"broker":1,"block_start":1}', "block_start", "1 is not text with an int64"),
    (CONTROLLER_EPOCH, b"1 ", "", "'1 ' is not an int32 in decimal digits"),
    (CONTROLLER_EPOCH, b"2147483648", "", "'2147483648' is not an int32 in decimal digits"),
    (CONTROLLER_EPOCH, b"0" * 41, "", f"'{'0' * 41}' is not an int32 in decimal digits"),
]  # fmt: skip


@pytest.mark.parametrize(("node", "content", "field", "reason"), ERRORS)
def test_the_text_of_damage(node: Any, content: bytes | None, field: str, reason: str) -> None:
    with pytest.raises(DamagedZnode) as caught:
        node.decode(content, "/x")
    error = caught.value
    assert (error.path, error.field, error.reason) == ("/x", field, reason)
    assert str(error) == (f"/x: {field}: {reason}" if field else f"/x: {reason}")
    assert isinstance(error, KafkaWireError)
    assert not error.retriable


def test_damage_does_not_show_secrets() -> None:
    content = b'{"version":1,"config":{"SCRAM-SHA-256":"salt=c2FsdA==,stored_key='
    with pytest.raises(DamagedZnode, match=r"^/x: not JSON: Unterminated string starting at at character 39$"):
        TOPIC_CONFIG.decode(content, "/x")


#: Constructors whose arguments no type checker checks.
any_state: Any = PartitionState
any_assignment: Any = TopicAssignment
any_config: Any = EntityConfig
any_id: Any = ClusterId

WRONG_VALUES: list[tuple[Any, Any, str, str]] = [
    (CONTROLLER, None, "", "None is not a ControllerRegistration"),
    (CONTROLLER, ClusterId("x"), "", "ClusterId(id='x') is not a ControllerRegistration"),
    (CONTROLLER, ControllerRegistration(2**31), "broker_id", "2147483648 is not an int32"),
    (CONTROLLER, ControllerRegistration(True), "broker_id", "True is not an int32"),
    (CONTROLLER, ControllerRegistration(1, 2**63), "timestamp_ms", "9223372036854775808 is not an int64"),
    (PARTITION_STATE, PartitionState(1, 1, 1, (1, 2**40)), "isr[1]", "1099511627776 is not an int32"),
    (PARTITION_STATE, any_state(1, 1, 1, "1"), "isr", "'1' is not a sequence"),
    (PARTITION_STATE, any_state(1, 1, 1, 5), "isr", "5 is not a sequence"),
    (TOPIC, any_assignment({"0": (1,)}), "partitions.0", "'0' is not an int32"),
    (TOPIC, any_assignment({0: (None,)}), "partitions.0[0]", "None is not an int32"),
    (TOPIC, any_assignment([]), "partitions", "[] is not a mapping"),
    (TOPIC, TopicAssignment({}, b"x"), "topic_id", "the UUID has 1 bytes, but 16 are expected"),
    (TOPIC_CONFIG, any_config({"a": 1}), "config.a", "1 is not text"),
    (CLUSTER_ID, any_id(None), "id", "None is not text"),
    (CONFIG_CHANGE, ConfigChange(version=3), "version", "3 is not a known version; expected 1 to 2"),
    (CONFIG_CHANGE, ConfigChange("topics"), "entity_type", "'topics' cannot be written in version 2, which "
     "lacks this field"),
    (DELEGATION_TOKEN, DelegationToken(1, (), "t", "o", 2, 3), "token_requester", "None is not text"),
    (DELEGATION_TOKEN, DelegationToken(1, ("\ud800",), "t", "o", 2, 3, "r"), "renewers[0]", r"'\ud800' has an unpaired "
     "surrogate, which a sanitized name cannot contain"),
    (CONTROLLER_EPOCH, 2**31, "", "2147483648 is not an int32"),
    (CONTROLLER_EPOCH, "1", "", "'1' is not an int32"),
    (ACL_CHANGE, "a\ud800", "", r"'a\ud800' has an unpaired surrogate at character 1"),
    (BROKERS, "x", "", "expected no content, got 'x'"),
]  # fmt: skip


@pytest.mark.parametrize(("node", "value", "path", "reason"), WRONG_VALUES)
def test_a_value_that_cannot_be_written(node: Any, value: Any, path: str, reason: str) -> None:
    with pytest.raises(EncodeError) as caught:
        node.encode(value)
    assert (caught.value.path, caught.value.reason) == (path, reason)


def test_a_node_without_content() -> None:
    assert BROKERS.encode(None) == b""
    assert BROKERS.decode(b"anything", "/brokers") is None


def test_later_versions_are_read_as_the_latest() -> None:
    content = next(content for name, content in WRITTEN["encoded"] if name == "BROKER" and '"version":5' in content)
    later = BROKER.decode(content.replace('"version":5', f'"version":{OPEN}').encode())
    assert later == BROKER.decode(content.encode())._replace(version=OPEN)
