"""The generated tables agree with Apache Kafka's, and a difference is found.

Method: the tables that ship with the project, whole and with one fact changed.
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


def test_an_error_code_that_differs_is_found() -> None:
    changed = table("error_codes.json")
    changed[5]["retriable"] = not changed[5]["retriable"]
    assert len(failures(check_error_codes(changed))) == 1


def test_an_api_that_differs_is_found() -> None:
    changed = table("api_keys.json")
    changed["api_keys"][0]["versions"][0]["request_header_version"] = 7
    changed["enumerations"]["AclOperation"][0]["code"] = 99
    assert [failure.split(":")[0] for failure in failures(check_api_keys(changed))] == ["PRODUCE", "AclOperation"]


def test_a_missing_file_is_found(tmp_path: Any) -> None:
    assert len(failures(check_coverage(table("coverage.json"), tmp_path))) == len(table("coverage.json")["files"])
