"""Hashes, integers, UUIDs, SCRAM and assignors agree with Apache Kafka, and the checks notice differences.

Method: check every vector in the file that ships with the project, then one vector of each kind with one value changed.
"""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest

from kafkawire.conformance.misc_vectors import check_misc_vector
from kafkawire.sdk.groups.assignors.sticky import StickyAssignor
from kafkawire.sdk.groups.consumer_protocol import encode_assignment
from kafkawire.sdk.protocol.engines.selection import ENGINE
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.vectors import read_vectors

KINDS = (
    "murmur2",
    "crc",
    "varint",
    "varlong",
    "varint-read",
    "float64",
    "uuid",
    "uuid-read",
    "uuid-compare",
    "scram",
    "assignor",
)


@cache
def vectors() -> list[dict[str, Any]]:
    return list(read_vectors("misc"))


def test_every_kind_is_known() -> None:
    assert {vector["kind"] for vector in vectors()} == set(KINDS)
    assert check_misc_vector({"kind": "new"}, ENGINE) == "there is no check for the kind new"


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_agree(kind: str) -> None:
    chosen = [vector for vector in vectors() if vector["kind"] == kind]
    assert [failure for vector in chosen if (failure := check_misc_vector(vector, ENGINE)) is not None] == []


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("murmur2", ["murmur2"], 1),
        ("murmur2", ["to_positive"], 1),
        ("murmur2", ["partition", "7"], 6),
        ("crc", ["crc32"], 1),
        ("crc", ["crc32c"], 1),
        ("float64", ["hex"], "3ff0000000000000"),
        ("uuid", ["reserved"], False),
        ("uuid", ["hex"], "ff" * 16),
        ("uuid-read", ["text"], "A" * 22),
        ("uuid-compare", ["sign"], 0),
        ("scram", ["client_first"], "n,,n=bob,r=x"),
        ("scram", ["server_final"], "v=AAAA"),
        ("scram", ["salted_password"], "AAAA"),
        ("assignor", ["assignment"], {}),
    ],
)
def test_a_value_that_differs_is_found(kind: str, path: list[str], value: object) -> None:
    changed = copy.deepcopy(next(vector for vector in vectors() if vector["kind"] == kind))
    owner = changed
    for key in path[:-1]:
        owner = owner[key]
    owner[path[-1]] = value
    assert check_misc_vector(changed, ENGINE) is not None


@pytest.mark.parametrize(("assignor", "found"), [("range", False), ("sticky", True), ("roundrobin", True)])
def test_partitions_in_another_order_are_a_difference_except_for_range(assignor: str, found: bool) -> None:
    for vector in vectors():
        members = vector.get("assignment", {})
        member = next((member for member in members if len(members[member]) > 1), None)
        if vector.get("assignor") == assignor and member is not None:
            changed = copy.deepcopy(vector)
            changed["assignment"][member].reverse()
            changed["assignment_hex"][member] = encode_assignment(
                [TopicPartition(*pair) for pair in changed["assignment"][member]]
            ).hex()
            assert (check_misc_vector(changed, ENGINE) is not None) is found
            return
    pytest.fail(f"no vector of {assignor} has a member with two partitions")


def test_user_data_that_changes_the_assignment_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """With this project's user data, the assignor must arrive at the same assignment as with Kafka's."""
    monkeypatch.setattr(StickyAssignor, "user_data", lambda self, partitions, generation_id: None)
    failures = [check_misc_vector(vector, ENGINE) for vector in vectors() if vector.get("assignor") == "sticky"]
    assert any("with this project's user data" in failure for failure in failures if failure is not None)


@pytest.mark.parametrize("key", ["subscription_hex", "assignment_hex"])
def test_bytes_of_the_group_protocol_that_differ_are_found(key: str) -> None:
    changed = copy.deepcopy(next(vector for vector in vectors() if vector["kind"] == "assignor"))
    member = next(iter(changed["members"]))
    owner, name = (changed["members"][member], key) if key == "subscription_hex" else (changed[key], member)
    owner[name] += "00"
    failure = check_misc_vector(changed, ENGINE)
    assert failure is not None
    assert member in failure


def test_an_error_that_kafka_does_not_have_is_found() -> None:
    empty = next(vector for vector in vectors() if vector["kind"] == "scram" and "error" in vector)
    assert check_misc_vector({key: value for key, value in empty.items() if key != "error"}, ENGINE) is not None
    good = next(vector for vector in vectors() if vector["kind"] == "scram" and "error" not in vector)
    assert check_misc_vector({**good, "error": "any"}, ENGINE) is not None
