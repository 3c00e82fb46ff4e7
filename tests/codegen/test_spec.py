"""Names are converted between cases without loss, and structures are found wherever they are defined.

Method: convert names like Kafka's, and use one message with inline, shared and nested structures.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkawire.codegen.spec import (
    INTEGERS,
    ApiFile,
    FieldSpec,
    MessageSpec,
    RecordFile,
    Removal,
    SchemaFile,
    SingleFile,
    snake_case,
    topic_of,
)
from kafkawire.codegen.versions import ALL, NONE, Versions
from tests.codegen.conftest import Read


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("Topics", "topics"),
        ("topicId", "topic_id"),
        ("ThrottleTimeMs", "throttle_time_ms"),
        ("LastKnownElr", "last_known_elr"),
        ("KRaftVersion", "k_raft_version"),
        ("ISRChange", "isr_change"),
        ("ResultsByTopicV3AndBelow", "results_by_topic_v3_and_below"),
        ("key", "key"),
    ],
)
def test_case(name: str, snake: str) -> None:
    assert snake_case(name) == snake


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_hold_what_their_bits_do(name: str) -> None:
    kind, bits = re.fullmatch("(u?int)([0-9]+)", name).groups()  # type: ignore[union-attr]  # None fails the test
    values = 2 ** int(bits)
    assert INTEGERS[name] == ((0, values - 1) if kind == "uint" else (-values // 2, values // 2 - 1))


def test_a_message_of_which_nothing_is_said() -> None:
    message = MessageSpec("Sample", "data", None, ALL)
    assert not message.unstable
    assert not message.deprecated
    assert not message.flexible
    field = FieldSpec("field", "int8")
    assert not any((field.array, field.nullable, field.tagged, field.ignorable, field.map_key, field.zero_copy))
    assert 0 in field.versions


@pytest.mark.parametrize(("versions", "known"), [(Versions(2, 3), Versions(0, 3)), (NONE, Versions(0, 1))])
def test_removed_versions_are_known(versions: Versions, known: Versions) -> None:
    assert MessageSpec("Sample", "data", None, versions, removed=(Removal("4.0", Versions(0, 1)),)).known == known


def test_structures_come_before_their_users(read: Read) -> None:
    message = read("""\
        message: Sample
        kind: data
        versions: 0
        structs:
          - name: Shared
            about: used twice
            fields:
              - name: inner
                type: Inner
                fields:
                  - name: innermost
                    type: Innermost
                    fields:
                      - {name: number, type: int8}
        fields:
          - {name: one, type: Shared}
          - name: outer
            type: Outer
            fields:
              - {name: two, type: "[]Shared"}
        """)
    assert [name for name, _fields, _about in message.all_structs()] == [*("Innermost", "Inner", "Shared", "Outer")]
    assert [field.name for field in message.struct_fields("Innermost")] == ["number"]
    with pytest.raises(KeyError, match="Sample has no structure Other"):
        message.struct_fields("Other")


HEADERS = {
    "RequestHeader": MessageSpec("RequestHeader", "header", None, Versions(1, 2), Versions(2, 2)),
    "ResponseHeader": MessageSpec("ResponseHeader", "header", None, Versions(0, 1), Versions(1, 1)),
}


@pytest.mark.parametrize(
    ("special", "requests", "responses"),
    [
        ((None, None, None), [1, 1, 2], [0, 0, 1]),
        ((0, None, None), [1, 1, 2], [0, 0, 0]),
        ((None, 1, None), [1, 1, 1], [0, 0, 1]),
        ((None, None, 0), [0, 1, 2], [0, 0, 1]),
        ((None, 1, 0), [0, 1, 1], [0, 0, 1]),
    ],
)
def test_headers_of_versions(
    special: tuple[int | None, int | None, int | None], requests: list[int], responses: list[int]
) -> None:
    response_header, request_header, first = special
    request, response = (MessageSpec(f"A{kind}", kind, 1, ALL, Versions(2, 2)) for kind in ("request", "response"))
    file = ApiFile("A", request, response, response_header, request_header, first_request_header=first)
    assert [file.header_version(request, version, HEADERS) for version in range(3)] == requests
    assert [file.header_version(response, version, HEADERS) for version in range(3)] == responses


def test_topics() -> None:
    data, metadata = (SingleFile((MessageSpec("A", kind, None, ALL),)) for kind in ("data", "metadata"))
    key, value = (MessageSpec(f"A{part}", f"coordinator-{part}", 1, NONE) for part in ("key", "value"))
    files: list[tuple[str, SchemaFile, str]] = [
        ("lamps/a.yaml", metadata, "__lamps"),
        ("a.yaml", metadata, ""),
        ("lamps/a.yaml", data, ""),
        ("lamps/a.yaml", RecordFile("A", "__visits", key, value), "__visits"),
    ]
    assert [topic_of(Path(path), file) for path, file, _ in files] == [topic for _, _, topic in files]
