"""An audit's folder shows either the old version or the new one, no matter when the process is killed.

Method: write versions by hand, and kill a process before each step that changes the folder. A reader must then see one
whole version, and the next run must complete the new one.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.spark.audit.store import AuditStore, Manifest

#: A program that writes a version, and is killed before the system call with the given number.
KILLED = """
import os, sys
from pathlib import Path
from kafkawire.sdk.spark.audit.store import AuditStore
folder, steps = Path(sys.argv[1]), int(sys.argv[2])

def count(event, arguments):
    global steps
    if event in ("open", "os.rename", "os.mkdir", "os.symlink", "os.remove", "os.rmdir", "shutil.rmtree") and (
        str(folder) in str(arguments[0])
    ):
        steps -= 1
        if steps < 0:
            os.kill(os.getpid(), 9)

sys.addaudithook(count)
with AuditStore(folder, {"topics": None}) as store:
    store.facts_of(store.version).mkdir(parents=True)
    store.table("gaps").mkdir(parents=True)
    (store.table("gaps") / "part").write_text(str(store.version))
    (store.version_folder / "report.html").write_text(str(store.version))
    runs = (*store.before.runs, store.version)
    store.commit(store.before._replace(runs=runs, next_offsets={"t": {"0": store.version}}))
"""


def write(folder: Path, steps: int = 1_000_000) -> int:
    command = [sys.executable, "-c", KILLED, str(folder), str(steps)]
    return subprocess.run(command, check=False, timeout=60).returncode


def seen(folder: Path) -> int:
    """Return the version that a reader sees, after checking that it is complete."""
    store = AuditStore(folder, {"topics": None})
    version = store.before.version
    if version:
        assert (folder / "current" / "tables" / "gaps" / "part").read_text() == str(version)
        assert store.before.next_offsets == {"t": {"0": version}}
        assert store.before.runs == tuple(range(1, version + 1))
        assert all(store.facts_of(run).is_dir() for run in store.before.runs)
    return version


def test_versions(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    for version in (1, 2, 3):
        assert write(folder) == 0
        assert seen(folder) == version
        assert (folder / "report.html").read_text() == str(version)
        assert (folder / "tables" / "gaps" / "part").read_text() == str(version)
    assert sorted(path.name for path in (folder / "versions").iterdir()) == ["3"]
    assert sorted(path.name for path in (folder / "facts").iterdir()) == ["run=1", "run=2", "run=3"]


@pytest.mark.thorough
@pytest.mark.parametrize("before", [0, 1])
def test_killed_at_every_step(tmp_path: Path, before: int) -> None:
    first = tmp_path / "first"
    first.mkdir()
    for _ in range(before):
        assert write(first) == 0
    versions = []
    for steps in range(100):
        folder = tmp_path / "audit"
        shutil.copytree(first, folder, symlinks=True)
        code = write(folder, steps)
        versions.append(seen(folder))
        assert write(folder) == 0
        assert seen(folder) == versions[-1] + 1
        shutil.rmtree(folder)
        if code == 0:
            break
        assert code == -9
    assert len(versions) > 8
    assert versions == sorted(versions)  # once the new version exists, it is kept
    assert (versions[0], versions[-1]) == (before, before + 1)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("notes.txt", "expected an empty folder or an audit, but the folder contains notes.txt"),
        ("facts/2026.csv", "expected an empty folder or an audit, but the folder contains facts"),
        ("versions/1/manifest.json", "expected an empty folder or an audit, but the folder contains versions"),
        (".lock", r"expected an empty folder or an audit, but the folder contains \.lock"),
        ("current/manifest.json", "cannot read"),
    ],
)
def test_other_folders(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "out" / content
    path.parent.mkdir(parents=True)
    path.write_text("{")
    with pytest.raises(ConfigurationError, match=reason):
        AuditStore(tmp_path / "out", {})
    assert path.read_text() == "{"


@pytest.mark.parametrize("reports", [(False,), (True, False), (False, True)])
def test_the_report_is_linked_if_there_is_one(tmp_path: Path, reports: tuple[bool, ...]) -> None:
    for has_report in reports:
        with AuditStore(tmp_path, {}) as store:
            store.version_folder.mkdir(parents=True)
            if has_report:
                (store.version_folder / "report.html").write_text("<html>")
            store.commit(Manifest())
        assert (tmp_path / "report.html").is_symlink() == has_report


def test_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="expected a folder"):
        AuditStore(tmp_path / "file", {})
    with pytest.raises(ConfigurationError, match="the driver and the workers must share the folder"):
        AuditStore("s3://bucket/audit", {})


def test_other_options(tmp_path: Path) -> None:
    with AuditStore(tmp_path, {"topics": ["orders"]}) as store:
        store.commit(Manifest())
    assert AuditStore(tmp_path, {"topics": ["orders"]}).before.version == 1
    with pytest.raises(
        ConfigurationError, match=r'made with \{"topics": \["orders"\]\}; different options need another'
    ):
        AuditStore(tmp_path, {"topics": None})


def test_what_is_read_again(tmp_path: Path) -> None:
    """Earlier versions are no longer used, but are kept until the new one exists; no two runs share a name."""
    known = Manifest(runs=(3, 4), next_offsets={"t": {"0": 9}}, last_batches={"t": {"0": [1]}}, topic_ids={"t": "A"})
    with AuditStore(tmp_path, {}) as store:
        store.facts_of(4).mkdir(parents=True)
        store.commit(known)
    with AuditStore(tmp_path, {}) as store:
        store.forget()
        assert (store.before, store.version, store.next_run) == (Manifest(version=1), 2, 5)
        assert store.facts_of(4).is_dir()
    assert AuditStore(tmp_path, {}).before.next_offsets == known.next_offsets
    with AuditStore(tmp_path, {}) as store:
        store.forget()
        store.commit(store.before._replace(runs=(store.next_run,)))
    assert not store.facts_of(4).exists()
    assert AuditStore(tmp_path, {}).before.runs == (5,)


def test_another_release(tmp_path: Path) -> None:
    with AuditStore(tmp_path, {}) as store:
        store.commit(Manifest())
    path = tmp_path / "current" / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "format": manifest["format"] + 1}))
    with pytest.raises(ConfigurationError, match="made by another release"):
        AuditStore(tmp_path, {})


def test_one_at_a_time(tmp_path: Path) -> None:
    with AuditStore(tmp_path, {}), pytest.raises(ConfigurationError, match="another audit is writing there"):
        AuditStore(tmp_path, {}).__enter__()
    with AuditStore(tmp_path, {}) as store:
        assert store.version == 1


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    with AuditStore(tmp_path, {}) as store:
        for path in (store.version_folder, store.facts_of(1)):
            path.mkdir(parents=True)
    with AuditStore(tmp_path, {}) as store:
        assert not store.version_folder.exists()
        assert not store.facts_of(1).exists()


def test_what_others_put_there_meanwhile_stays(tmp_path: Path) -> None:
    store = AuditStore(tmp_path, {})
    (tmp_path / "facts" / "2026").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="the folder contains facts"):
        store.__enter__()
    assert (tmp_path / "facts" / "2026").is_dir()


@pytest.mark.parametrize("name", ["a[1]", "a{b}c", "a*", "a?b", "a\\b"])
def test_a_folder_that_spark_would_take_for_a_pattern(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"Spark would treat . in the path as a pattern"):
        AuditStore(tmp_path / name, {})


def test_paths_as_spark_takes_them(tmp_path: Path) -> None:
    """Paths get a scheme, because a cluster may have a different default file system, and are not encoded."""
    store = AuditStore(tmp_path / "a b%20", {})
    assert store.uri(store.table("gaps")) == f"file://{tmp_path}/a b%20/versions/1/tables/gaps"
