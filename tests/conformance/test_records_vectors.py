"""The record engines agree with Apache Kafka's own classes on every vector, and the checks notice differences.

Method: check every batch vector and every damaged batch that ships with the project, per engine, then altered vectors.
"""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest

from kafkawire.conformance.records_vectors import check_corrupt_records_vector, check_record_batch_vector
from kafkawire.sdk.records.engines import selection as engines
from tests.vectors import read_vectors

AVAILABLE = ["python", "construct", *(["native"] if engines.built is not None else [])]


@cache
def batches() -> list[dict[str, Any]]:
    return list(read_vectors("record_batches"))


@cache
def corrupt() -> list[dict[str, Any]]:
    return [vector for vector in read_vectors("corrupt") if vector["target"] == "records"]


@pytest.mark.parametrize("engine", AVAILABLE)
def test_batches(engine: str) -> None:
    assert {failure for vector in batches() if (failure := check_record_batch_vector(vector, engine))} == set()
    assert len(batches()) > 300


@pytest.mark.parametrize("engine", AVAILABLE)
def test_corrupt_batches(engine: str) -> None:
    assert {failure for vector in corrupt() if (failure := check_corrupt_records_vector(vector, engine))} == set()
    assert len(corrupt()) > 1000


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize(
    ("kind", "path", "value", "failure"),
    [
        ("plain", ("batches", 0, "max_timestamp"), 5, "max_timestamp is"),
        ("plain", ("batches", 0, "unheard_of"), 5, "unheard_of is not compared"),
        ("plain", ("batches", 0, "records", 0, "value"), "AAAA", "record 0 is"),
        ("plain", ("batches", 0, "records"), [], "records, but expected 0"),
        ("plain", ("batches",), [], "1 batches, but expected 0"),
        ("plain", ("params", "partition_leader_epoch"), 99, "built"),
        ("refused", ("params", "records"), [], "Kafka refuses it"),
        ("compacted", ("params", "retained"), "last", "built"),
        ("end-txn-marker", ("params", "coordinator_epoch"), 99, "built"),
        ("empty", ("params", "last_offset"), 5000, "built"),
    ],
)
def test_differences_are_noticed(kind: str, path: tuple[Any, ...], value: Any, failure: str, engine: str) -> None:
    tampered = copy.deepcopy(next(each for each in batches() if each["kind"] == kind and each["magic"] == 2))
    if kind == "refused":
        tampered["params"] |= {"producer_id": -1, "is_transactional": False}
    owner = tampered
    for step in path[:-1]:
        owner = owner[step]
    owner[path[-1]] = value
    assert failure in (check_record_batch_vector(tampered, engine) or "nothing")


@pytest.mark.parametrize("engine", AVAILABLE)
def test_wrong_outcomes_are_noticed(engine: str) -> None:
    untouched = next(vector for vector in corrupt() if vector["kind"] == "untouched")
    pretended = {**untouched, "outcome": "error", "stage": "records", "message": "something"}
    assert "an error like Kafka's something" in (check_corrupt_records_vector(pretended, engine) or "")
    broken = next(vector for vector in corrupt() if vector["kind"] == "bad-crc" and vector["crc_checked"])
    assert "Kafka decodes it" in (check_corrupt_records_vector({**broken, "outcome": "decoded"}, engine) or "")
    assert "in the stage records" in (check_corrupt_records_vector({**broken, "stage": "records"}, engine) or "")


@pytest.mark.parametrize("engine", AVAILABLE)
def test_a_partial_batch_where_kafka_reads_one_is_noticed(engine: str) -> None:
    vector = next(each for each in batches() if each["kind"] == "partial-tail")
    assert check_record_batch_vector(vector, engine) is None
    assert "partial batch" in (check_record_batch_vector({**vector, "kind": "plain"}, engine) or "")


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_other_records_in_a_batch_that_is_built_are_noticed(magic: int, engine: str) -> None:
    """If a compressor may write different bytes from Kafka's, the records are compared instead."""
    vector = next(
        each for each in batches() if (each["kind"], each["magic"], each.get("exact")) == ("plain", magic, False)
    )
    assert check_record_batch_vector(vector, engine) is None
    tampered = copy.deepcopy(vector)
    tampered["params"]["records"][0]["value"] = "AAAA"
    assert (check_record_batch_vector(tampered, engine) or "").startswith("the rebuilt batches contain [[{")


@pytest.mark.parametrize("engine", AVAILABLE)
def test_another_end_of_what_can_be_read_is_noticed(engine: str) -> None:
    """If Kafka's reader stops without an error, this project's stops at the same byte and after the same batches."""
    partial = [each for each in corrupt() if each["outcome"] == "decoded" and each["consumed"] < len(each["hex"]) // 2]
    vector = next(each for each in partial if each["batches"])
    assert check_corrupt_records_vector(vector, engine) is None
    failure = check_corrupt_records_vector({**vector, "consumed": vector["consumed"] + 1}, engine)
    assert (failure or "").endswith(f"Kafka stops at byte {vector['consumed'] + 1}")
    assert "batches, but expected" in (check_corrupt_records_vector({**vector, "batches": []}, engine) or "")
