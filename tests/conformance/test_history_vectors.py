"""Today's codecs are checked against an older release's vectors, and message versions without a vector are found.

Method: check the folder that ships with the package, and copies of its tables with one error each.
"""

from __future__ import annotations

import copy
import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkawire.conformance.codec_suite import VECTORS, _files, _run_files
from kafkawire.conformance.history_vectors import (
    CHANGED_IN_PLACE,
    MESSAGE_FILES,
    check_history_message,
    check_history_parity,
    check_history_write_rule,
    check_newest_versions,
    check_versions,
    with_new_names,
)
from kafkawire.sdk.protocol.engines.selection import ENGINE, ENGINES, native
from kafkawire.sdk.protocol.messages import MODULES
from kafkawire.sdk.protocol.programs import message_class

AVAILABLE = [engine for engine in ENGINES if engine != "native" or native is not None]
OLDER = VECTORS / "kafka_3_9_1"
PARITY: list[dict[str, Any]] = json.loads((OLDER / "schema_parity.json").read_text())


def vectors(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def failures(cases: Any) -> list[str]:
    return [f"{case}: {failure}" for case, failure in cases if failure is not None]


@pytest.mark.parametrize("engine", AVAILABLE)
def test_every_vector(engine: str) -> None:
    suites = list(_run_files(_files(OLDER), engine, older=True))
    assert {suite.name: [str(failure) for failure in suite.failures] for suite in suites if suite.failures} == {}
    assert {suite.name.partition("/")[2] for suite in suites} == {path.name for path in OLDER.iterdir()}
    assert sum(suite.changed for suite in suites) == 9


@pytest.mark.parametrize("name", ["requests.jsonl.gz", "write_rules.jsonl.gz"])
def test_a_wrong_vector_is_found(name: str) -> None:
    check = check_history_message if name.startswith("requests") else check_history_write_rule
    vector = next(vector for vector in vectors(OLDER / name) if "hex" in vector and vector["name"] != "VoteRequest")
    assert check(vector, ENGINE) is None
    assert check({**vector, "hex": vector["hex"] + "00"}, ENGINE) is not None


def test_every_removed_version_has_vectors_of_its_release() -> None:
    """Today's vectors cannot replace those of removed versions, so the older release's files contain each of them."""
    found = {
        (vector["name"], vector["version"])
        for name in MESSAGE_FILES
        if (OLDER / name).exists()
        for vector in vectors(OLDER / name)
    }
    removed = {
        (name, version)
        for name in MODULES
        for _release, versions in message_class(name).SCHEMA.removed
        for version in versions.numbers()
    }
    assert len(removed) == 123
    assert removed <= found


def test_both_releases_are_covered() -> None:
    assert failures(check_versions(OLDER, VECTORS)) == []
    assert failures(check_newest_versions(VECTORS)) == []
    assert len(list(check_versions(OLDER, VECTORS))) == 740
    assert len(list(check_newest_versions(VECTORS))) == 728 + 123


def copied(tmp_path: Path) -> Path:
    """Return a copy of the folder that contains only the tables and the vectors of requests."""
    for folder in (VECTORS, OLDER):
        to = tmp_path if folder is VECTORS else tmp_path / OLDER.name
        to.mkdir(exist_ok=True)
        for name in (*MESSAGE_FILES, "schema_parity.json", "coverage.json"):
            if (folder / name).exists():
                shutil.copy(folder / name, to / name)
    return tmp_path


def without(path: Path, name: str, version: int) -> None:
    """Remove one message version's vectors from a file."""
    kept = [vector for vector in vectors(path) if (vector["name"], vector["version"]) != (name, version)]
    path.write_bytes(gzip.compress("".join(f"{json.dumps(vector)}\n" for vector in kept).encode()))


def test_a_living_version_without_a_vector_is_found(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    without(folder / "requests.jsonl.gz", "HeartbeatRequest", 2)
    assert failures(check_newest_versions(folder)) == ["HeartbeatRequest 2: has no vector"]
    # The older release relies on the same vectors, so it lacks one too.
    assert failures(check_versions(folder / "kafka_3_9_1", folder)) == ["HeartbeatRequest 2: has no vector"]


def test_a_removed_version_without_a_vector_is_found(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    without(folder / "kafka_3_9_1" / "requests.jsonl.gz", "ControlledShutdownRequest", 0)
    assert failures(check_newest_versions(folder)) == [
        "ControlledShutdownRequest 0: is a removed version without a vector"
    ]
    assert failures(check_versions(folder / "kafka_3_9_1", folder)) == ["ControlledShutdownRequest 0: has no vector"]


def test_vectors_of_the_newer_release_count_only_if_both_made_them(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    path = folder / "kafka_3_9_1" / "coverage.json"
    coverage = json.loads(path.read_text())
    assert coverage["same_beside"]["HeartbeatRequest"].pop("2") >= 4
    path.write_text(json.dumps(coverage))
    assert failures(check_versions(folder / "kafka_3_9_1", folder)) == ["HeartbeatRequest 2: has no vector"]


def test_a_folder_of_one_release_says_nothing_of_removed_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copied(tmp_path)
    shutil.rmtree(folder / OLDER.name)
    assert failures(check_newest_versions(folder)) == []
    assert len(list(check_newest_versions(folder))) == 728
    monkeypatch.setattr("kafkawire.conformance.history_vectors.VECTORS", folder)
    assert len(failures(check_newest_versions(folder))) == 123


def test_a_folder_without_a_table_of_messages(tmp_path: Path) -> None:
    assert list(check_newest_versions(tmp_path)) == []


def test_the_tables_agree() -> None:
    assert failures(check_history_parity(PARITY)) == []


def changed(name: str, path: str, **values: object) -> list[dict[str, Any]]:
    """Return one message's entry, with changed values for one of its fields."""
    entry = copy.deepcopy(next(entry for entry in PARITY if entry["name"] == name))
    field = next(field for field in entry["fields"] if field["path"] == path)
    field.update(values)
    return [entry]


@pytest.mark.parametrize(
    ("name", "path", "values", "versions"),
    [
        ("StopReplicaRequest", "DeletePartitions", {"type": "int8"}, [0, 1, 2]),
        ("StopReplicaRequest", "DeletePartitions", {"versions": "0-3"}, [3]),
        ("StopReplicaRequest", "Topics[].Name", {"nullable_versions": "2"}, [2]),
        ("UpdateMetadataRequest", "Type", {"tagged_versions": "none"}, [8]),
        ("HeartbeatRequest", "GenerationId", {"type": "int64"}, [0, 1, 2, 3, 4]),
    ],
)
def test_a_field_that_differs_is_found(name: str, path: str, values: dict[str, object], versions: list[int]) -> None:
    found = failures(check_history_parity(changed(name, path, **values)))
    assert [case.partition(":")[0] for case in found] == [f"{name} {version}" for version in versions]


def test_fields_in_another_order_are_found() -> None:
    entry = copy.deepcopy(next(entry for entry in PARITY if entry["name"] == "HeartbeatRequest"))
    entry["fields"][:2] = reversed(entry["fields"][:2])
    assert len(failures(check_history_parity([entry]))) == 5


@pytest.mark.parametrize(
    ("values", "failure"),
    [
        ({"name": "HeartbeatQuestion"}, "HeartbeatQuestion 0: the message does not exist"),
        ({"valid_versions": "9"}, "HeartbeatRequest 9: the known versions are 0-4"),
        ({"flexible_versions": "0+"}, "HeartbeatRequest 0: the version is not flexible"),
    ],
)
def test_a_message_that_differs_is_found(values: dict[str, str], failure: str) -> None:
    entry = {**next(entry for entry in PARITY if entry["name"] == "HeartbeatRequest"), **values}
    assert failures(check_history_parity([entry]))[0] == failure


def test_what_is_listed_as_changed_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHANGED_IN_PLACE, ("HeartbeatRequest", 3), "it did not")
    found = failures(check_history_parity(PARITY))
    assert found == ["HeartbeatRequest 3: it is listed as changed, but is the same"]


def test_new_names_of_old_fields() -> None:
    vector = {"name": "VoteRequest", "value": {"topics": [{"candidateId": 3, "candidates": None}]}}
    assert with_new_names(vector)["value"] == {"topics": [{"replicaId": 3, "candidates": None}]}
    assert with_new_names({**vector, "name": "FetchRequest"})["value"] == vector["value"]
