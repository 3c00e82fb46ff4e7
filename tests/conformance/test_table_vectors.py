"""The generated tables agree with Apache Kafka's, and differences are found.

Method: check the tables that ship with the project, unchanged and with one fact changed.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from kafkawire.conformance.codec_suite import VECTORS
from kafkawire.conformance.table_vectors import (
    check_api_keys,
    check_coverage,
    check_error_codes,
    check_schema_parity,
)


def table(name: str) -> Any:
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


def failures(cases: Any) -> list[str]:
    return [f"{case}: {failure}" for case, failure in cases if failure is not None]


def test_tables_agree() -> None:
    assert failures(check_schema_parity(table("schema_parity.json"))) == []
    assert failures(check_error_codes(table("error_codes.json"))) == []
    assert failures(check_api_keys(table("api_keys.json"))) == []
    assert failures(check_coverage(table("coverage.json"), VECTORS)) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [("type", "int64"), ("versions", "1+"), ("nullable_versions", "0+"), ("default", "5"), ("ignorable", True)],
)
def test_a_field_that_differs_is_found(key: str, value: object) -> None:
    changed = copy.deepcopy(table("schema_parity.json"))
    entry = next(entry for entry in changed if entry["name"] == "HeartbeatRequest")
    field = next(field for field in entry["fields"] if field["path"] == "GenerationId")
    field[key] = value
    (failure,) = failures(check_schema_parity(changed))
    assert failure.startswith("HeartbeatRequest: generation_id")


@pytest.mark.parametrize(
    ("key", "value", "failure"),
    [
        ("type", "response", "kind, key, versions, flexible"),
        ("api_key", 13, "kind, key, versions, flexible"),
        ("valid_versions", "0-5", "kind, key, versions, flexible"),
        ("valid_versions", "none", "in heartbeat, but removed"),
        ("flexible_versions", "3+", "kind, key, versions, flexible"),
        ("name", "HeartbeatQuestion", "there is no such message"),
        ("fields", [], "expected None"),
    ],
)
def test_a_message_that_differs_is_found(key: str, value: object, failure: str) -> None:
    (entry,) = [entry for entry in table("schema_parity.json") if entry["name"] == "HeartbeatRequest"]
    (found,) = failures(check_schema_parity([entry | {key: value}]))
    assert failure in found


def test_a_range_that_cannot_be_read_is_refused() -> None:
    (entry,) = [entry for entry in table("schema_parity.json") if entry["name"] == "HeartbeatRequest"]
    with pytest.raises(ValueError, match="'1 to 2' is not a version range"):
        list(check_schema_parity([entry | {"valid_versions": "1 to 2"}]))


def test_an_error_code_that_differs_is_found() -> None:
    changed = table("error_codes.json")
    changed[5]["retriable"] = not changed[5]["retriable"]
    assert len(failures(check_error_codes(changed))) == 1


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        ({"name": "OTHER"}, ["OTHER"]),
        ({"invalid_metadata": True}, ["UNKNOWN_SERVER_ERROR"]),
        ({"code": 4711}, ["UNKNOWN_SERVER_ERROR", "no others"]),
    ],
)
def test_error_codes_are_compared_whole(change: dict[str, Any], failed: list[str]) -> None:
    changed = table("error_codes.json")
    (index,) = [index for index, entry in enumerate(changed) if entry["name"] == "UNKNOWN_SERVER_ERROR"]
    changed[index] |= change
    assert [failure.split(":")[0] for failure in failures(check_error_codes(changed))] == failed


@pytest.mark.parametrize(
    ("change", "failure"),
    [
        ({"id": 4711}, "key 4711 is missing"),
        ({"has_valid_version": False}, "is listed, although it was removed"),
        ({"message_name": "Publish"}, "expected Publish"),
        ({"listeners": ["controller"]}, "expected Produce on ['controller']"),
        ({"latest_version_unstable": True}, "expected Produce"),
        ({"versions": []}, "expected []"),
    ],
)
def test_apis_are_compared_whole(change: dict[str, Any], failure: str) -> None:
    changed = table("api_keys.json")
    assert changed["api_keys"][0]["name"] == "PRODUCE"
    changed["api_keys"][0] |= change
    (found,) = failures(check_api_keys(changed))
    assert failure in found


def test_an_enumeration_that_is_missing_is_found() -> None:
    changed = table("api_keys.json")
    changed["enumerations"]["Weather"] = [{"name": "RAIN", "id": 1}]
    assert failures(check_api_keys(changed)) == ["Weather: there is no enumeration Weather"]


def test_an_api_that_differs_is_found() -> None:
    changed = table("api_keys.json")
    changed["api_keys"][0]["versions"][0]["request_header_version"] = 7
    changed["enumerations"]["AclOperation"][0]["code"] = 99
    assert [failure.split(":")[0] for failure in failures(check_api_keys(changed))] == ["PRODUCE", "AclOperation"]


def test_a_file_of_other_length_is_found() -> None:
    changed = table("coverage.json")
    lines = changed["files"]["headers.jsonl.gz"]["lines"]
    changed["files"]["headers.jsonl.gz"]["lines"] += 1
    assert failures(check_coverage(changed, VECTORS)) == [f"headers.jsonl.gz: {lines} lines, but expected {lines + 1}"]


def test_a_missing_file_is_found(tmp_path: Any) -> None:
    assert len(failures(check_coverage(table("coverage.json"), tmp_path))) == len(table("coverage.json")["files"])
