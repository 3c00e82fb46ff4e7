"""Names change their case without loss, and structures are found wherever they are defined.

Method: names as Kafka has them; one message with structures in place, shared and nested.
"""

from __future__ import annotations

import re

import pytest

from kafkawire.codegen.spec import INTEGERS, FieldSpec, MessageSpec, snake_case
from kafkawire.codegen.versions import ALL
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
                  - {name: number, type: int8}
        fields:
          - {name: one, type: Shared}
          - name: outer
            type: Outer
            fields:
              - {name: two, type: "[]Shared"}
        """)
    assert [name for name, _fields, _about in message.all_structs()] == ["Inner", "Shared", "Outer"]
    assert [field.name for field in message.struct_fields("Inner")] == ["number"]
    with pytest.raises(KeyError, match="Sample has no structure Other"):
        message.struct_fields("Other")
