"""The message codecs agree with Apache Kafka's own classes, byte for byte, on every engine; and the checks would notice
if not.

Method: every message vector that ships with the project, per file and engine; then vectors that were tampered with.
"""

from __future__ import annotations

import copy
import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import kafkawire.conformance
from kafkawire.conformance.message_vectors import (
    STRICTER,
    check_corrupt_message_vector,
    check_frame_vector,
    check_message_vector,
    check_write_rule_vector,
    stricter,
)
from kafkawire.sdk.protocol.engines.selection import ENGINES, native

VECTORS = Path(kafkawire.conformance.__file__).parent / "vectors"
AVAILABLE = [engine for engine in ENGINES if engine != "native" or native is not None]
MESSAGE_FILES = ["requests", "responses", "headers", "data", "coordinator", "metadata"]


@cache
def vectors(name: str) -> list[dict[str, Any]]:
    with gzip.open(VECTORS / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@cache
def bodies() -> dict[tuple[str, int, int], dict[str, Any]]:
    return {
        (vector["name"], vector["version"], vector["index"]): vector
        for vector in vectors("requests") + vectors("responses")
    }


def corrupt_messages() -> list[dict[str, Any]]:
    return [vector for vector in vectors("corrupt") if vector["target"] == "message"]


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize("name", MESSAGE_FILES)
def test_messages(name: str, engine: str) -> None:
    assert {failure for vector in vectors(name) if (failure := check_message_vector(vector, engine))} == set()
    assert vectors(name)


@pytest.mark.parametrize("engine", AVAILABLE)
def test_frames(engine: str) -> None:
    failures = {failure for vector in vectors("frames") if (failure := check_frame_vector(vector, bodies(), engine))}
    assert failures == set()


@pytest.mark.parametrize("engine", AVAILABLE)
def test_write_rules(engine: str) -> None:
    failures = {failure for vector in vectors("write_rules") if (failure := check_write_rule_vector(vector, engine))}
    assert failures == set()


@pytest.mark.parametrize("engine", AVAILABLE)
def test_corrupt(engine: str) -> None:
    failures = {failure for vector in corrupt_messages() if (failure := check_corrupt_message_vector(vector, engine))}
    assert failures == set()


def test_stricter_only_where_listed() -> None:
    kinds = {vector["kind"] for vector in corrupt_messages() if stricter(vector)}
    assert kinds == set(STRICTER)


def first(file: str, **wanted: Any) -> dict[str, Any]:
    """Return a copy of the first vector of a file with these values."""
    pool = corrupt_messages() if file == "corrupt" else vectors(file)
    return copy.deepcopy(next(v for v in pool if all(v.get(key) == value for key, value in wanted.items())))


def test_a_wrong_value_is_noticed() -> None:
    vector = first("requests", name="AddOffsetsToTxnRequest", case="random")
    vector["value"]["groupId"] += "x"
    assert "decoded" in (check_message_vector(vector, "construct") or "")


def test_bytes_left_over_are_noticed() -> None:
    vector = first("requests", name="AddOffsetsToTxnRequest", case="random")
    vector["hex"] += "00"
    assert "ended at byte" in (check_message_vector(vector, "construct") or "")


def test_a_lost_unknown_tag_is_noticed() -> None:
    vector = first("requests", case="unknown-tags")
    vector["unknown_tags"] = []
    assert check_message_vector(vector, "construct")


def test_wrong_framing_is_noticed() -> None:
    vector = first("data", framing="version-prefix")
    vector["framed_hex"] = "ffff" + vector["framed_hex"][4:]
    assert "framed" in (check_message_vector(vector, "construct") or "")


@pytest.mark.parametrize(
    ("field", "value", "failure"),
    [("header_size", 0, "sizes"), ("header_size", 1, "sizes"), ("hex", None, "sizes")],
)
def test_a_wrong_frame_is_noticed(field: str, value: Any, failure: str) -> None:
    vector = first("frames")
    vector[field] = f"00{vector['hex'][2:6]}ff{vector['hex'][8:]}" if field == "hex" else value
    assert failure in (check_frame_vector(vector, bodies(), "construct") or "")


def test_a_wrong_header_is_noticed() -> None:
    vector = first("frames")
    vector["header"]["correlationId"] += 1
    assert "header" in (check_frame_vector(vector, bodies(), "construct") or "")


def test_an_error_where_kafka_encodes_is_noticed() -> None:
    vector = first("write_rules", outcome="error")
    vector["outcome"], vector["hex"] = "encoded", ""
    assert "refused" in (check_write_rule_vector(vector, "construct") or "")


def test_encoding_where_kafka_refuses_is_noticed() -> None:
    vector = first("write_rules", outcome="encoded")
    vector["outcome"] = "error"
    assert "expected an error" in (check_write_rule_vector(vector, "construct") or "")


def test_decoding_where_kafka_refuses_is_noticed() -> None:
    vector = first("corrupt", kind="trailing-bytes")
    vector["outcome"], vector["error"] = "error", "java.lang.RuntimeException"
    assert "expected an error" in (check_corrupt_message_vector(vector, "construct") or "")


def test_refusing_what_kafka_decodes_is_noticed() -> None:
    vector = first("corrupt", kind="truncated")
    vector["outcome"], vector["value"] = "decoded", {}
    assert "refused" in (check_corrupt_message_vector(vector, "construct") or "")


def test_a_wrong_number_of_bytes_left_is_noticed() -> None:
    vector = first("corrupt", kind="trailing-bytes")
    vector["remaining"] += 1
    assert "bytes left" in (check_corrupt_message_vector(vector, "construct") or "")
