"""On every engine, the message codecs agree byte for byte with Apache Kafka's classes; the checks notice differences.

Method: check every message vector that ships with the project, per file and engine, then altered vectors.
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
from kafkawire.conformance import message_vectors
from kafkawire.conformance.message_vectors import (
    STRICTER,
    check_corrupt_message_vector,
    check_frame_vector,
    check_message_vector,
    check_write_rule_vector,
    stricter,
)
from kafkawire.sdk.protocol.engines.python import Program
from kafkawire.sdk.protocol.engines.selection import ENGINES, native
from kafkawire.sdk.protocol.json_form import to_json
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.messages.headers import ResponseHeader
from kafkawire.sdk.protocol.programs import program

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


def test_there_are_vectors_of_each_kind() -> None:
    assert [len(vectors(name)) > 200 for name in ("frames", "write_rules", "corrupt")] == [True] * 3
    assert len(corrupt_messages()) > 1000


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
    """Return a copy of a file's first vector, with some values replaced."""
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


def test_a_message_without_the_framing_it_should_have() -> None:
    vector = first("data", framing="version-prefix") | {"framing": "type-prefix"}
    with pytest.raises(ValueError, match=f"unknown framing 'type-prefix' of {vector['name']}"):
        check_message_vector(vector, "construct")


def test_json_in_another_form_is_noticed() -> None:
    """A tagged field that has its default can be read from JSON, but Kafka does not print it."""
    message = FetchRequest()
    value = to_json(message, 12)
    vector = {"name": "FetchRequest", "version": 12, "hex": program(FetchRequest, 12).encode(message).hex()}
    assert check_message_vector({**vector, "value": value}, "construct") is None
    failure = check_message_vector({**vector, "value": {**value, "clusterId": None}}, "construct")
    assert (failure or "").startswith("converted to JSON {")


def test_bytes_that_are_not_encoded_like_that_are_noticed() -> None:
    """The number of tagged fields may take two bytes, but no encoder writes it that way."""
    vector = {"name": "ResponseHeader", "version": 1, "value": {"correlationId": 7}}
    assert check_message_vector({**vector, "hex": "0000000700"}, "construct") is None
    failure = check_message_vector({**vector, "hex": "000000078000"}, "construct")
    assert failure == "encoded 0000000700, but expected 000000078000"


def test_other_bytes_in_parts_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(layout(ResponseHeader, 1))
    monkeypatch.setattr(message_vectors, "program", lambda *_: program)
    monkeypatch.setattr(program, "encode_parts", lambda message: [b"\0\0\0\7", b"\1"])
    vector = {"name": "ResponseHeader", "version": 1, "value": {"correlationId": 7}, "hex": "0000000700"}
    assert check_message_vector(vector, "python") == "encoded in parts 0000000701, but expected 0000000700"


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


def test_a_wrong_body_is_noticed() -> None:
    vector = first("frames")
    key = vector["name"], vector["version"], vector["index"]
    body = copy.deepcopy(bodies()[key])
    body["unknown_tags"] = [{"path": "", "tag": 99, "hex": "00"}]
    assert (check_frame_vector(vector, {key: body}, "construct") or "").startswith("body ")


def test_a_frame_that_is_not_encoded_like_that_is_noticed() -> None:
    vector = first("frames", type="response", header_version=1)
    data = bytes.fromhex(vector["hex"])
    longer = data[:8] + b"\x80" + data[8:]  # the count of the header's tagged fields takes two bytes
    vector["hex"] = ((len(longer) - 4).to_bytes(4, "big") + longer[4:]).hex()
    vector["header_size"] += 1
    assert (check_frame_vector(vector, bodies(), "construct") or "").startswith(f"encoded {data.hex()}, but expected 0")


@pytest.mark.parametrize(
    ("outcome", "changes", "failure"),
    [
        ("error", {"kind": "null-not-allowed"}, "does not mention"),
        ("error", {"path": "some.otherField"}, "does not mention the field other_field"),
        ("encoded", {"hex": "00"}, ", but expected 00"),
    ],
)
def test_a_wrong_write_rule_is_noticed(outcome: str, changes: dict[str, str], failure: str) -> None:
    vector = first("write_rules", outcome=outcome, kind="absent-field")
    assert check_write_rule_vector(vector, "construct") is None
    assert failure in (check_write_rule_vector({**vector, **changes}, "construct") or "")


@pytest.mark.parametrize(
    ("kind", "changes", "failure"),
    [
        ("trailing-bytes", {"value": {}}, "decoded {"),
        (
            "trailing-bytes",
            {"reencode_error": "java.lang.RuntimeException"},
            "expected an error like Kafka's java.lang",
        ),
        ("trailing-bytes", {"reencoded_hex": "00"}, "expected 00"),
        ("bool-two", {"reencoded_hex": None}, "re-encoded to"),
        ("tags-duplicate", {"reencode_error": None}, "re-encoding failed with EncodeError"),
        ("unsupported-version", {"kind": "another"}, "refused with UnsupportedVersion"),
    ],
)
def test_a_wrong_corrupt_vector_is_noticed(kind: str, changes: dict[str, Any], failure: str) -> None:
    """A change to None removes the field."""
    vector = first("corrupt", kind=kind, outcome="decoded")
    assert check_corrupt_message_vector(vector, "construct") is None
    changed = {key: value for key, value in {**vector, **changes}.items() if value is not None or key not in changes}
    assert failure in (check_corrupt_message_vector(changed, "construct") or "")


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
    assert "bytes are left, but expected" in (check_corrupt_message_vector(vector, "construct") or "")
