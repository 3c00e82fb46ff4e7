"""Keys have the iteration order of Java's and Scala's maps.

Method: compare with objects that Apache Kafka 3.9.1 has written from such maps, both small ones and ones just before
and after a table grows, and with pairs of keys that have equal hashes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire.sdk.registry.map_order import as_inserted, java_hash_map, java_properties, scala_hash_map, scala_map

KAFKA = json.loads((Path(__file__).parent / "kafka_znodes.json").read_text("utf-8"))

#: Java gives both keys of each pair the same hash.
EQUAL_HASHES = ("Aa", "BB")


def written(node: str, field: str) -> Iterator[list[str]]:
    for name, content in KAFKA["encoded"]:
        if name == node and field in (found := json.loads(content)):
            yield list(found[field])


def test_partitions_are_in_the_order_of_scalas_mutable_map() -> None:
    sizes = []
    for keys in written("TOPIC", "partitions"):
        assert scala_hash_map([str(number) for number in range(len(keys))]) == keys
        sizes.append(len(keys))
    assert {12, 13, 24} < set(sizes)
    assert max(sizes) == 150


def test_a_bucket_of_scalas_mutable_map_is_sorted_by_hash() -> None:
    assert scala_hash_map(["ab", "Q"]) == scala_hash_map(["Q", "ab"]) == ["Q", "ab"]  # hashes 3105 and 81
    assert scala_hash_map(EQUAL_HASHES) == ["Aa", "BB"]
    assert scala_hash_map(EQUAL_HASHES[::-1]) == ["BB", "Aa"]


@pytest.mark.parametrize("field", ["listener_security_protocol_map"])
def test_listeners_are_in_the_order_of_scalas_immutable_map(field: str) -> None:
    sizes = []
    for keys in written("BROKER", field):
        assert scala_map(sorted(keys) if len(keys) > 4 else keys) == keys
        sizes.append(len(keys))
    assert {1, 4, 5, 6, 7, 8} <= set(sizes)


def test_scalas_immutable_map_of_equal_hashes() -> None:
    keys = [*EQUAL_HASHES, "a", "b", "c"]
    assert sorted(scala_map(keys)) == sorted(keys)
    assert [key for key in scala_map(keys) if key in EQUAL_HASHES] == [*EQUAL_HASHES]


def test_configurations_are_in_the_order_of_properties() -> None:
    sizes = []
    for keys in written("TOPIC_CONFIG", "config"):
        assert java_properties(keys) == keys
        if len(keys) < 24:  # with more, some keys share a bucket, whose order depends on how the table grew
            assert java_properties(sorted(keys)) == keys
        sizes.append(len(keys))
    assert {11, 13, 24, 25} <= set(sizes)


def test_features_are_in_the_order_of_a_hash_map() -> None:
    sizes = {len(keys) for keys in written("BROKER", "features") if java_hash_map(sorted(keys)) == keys}
    assert sizes == {0, 3}


def test_other_keys_stay() -> None:
    assert as_inserted({"b": 1, "a": 2}.keys()) == ["b", "a"]
