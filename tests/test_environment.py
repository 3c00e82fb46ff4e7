"""A problem with the environment is reported in one line, and pip's output is shown only if pip fails.

Method: build extension sources in a temporary folder without a compiler, and use stand-ins for pip.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tools import environment
from tools.environment import (
    SetupError,
    check_python_version,
    install_package,
    make_venv,
    missing_extension_note,
    obstacle,
)

ROOT = Path(__file__).parent.parent

#: A modification time later than any other.
FUTURE = 2_000_000_000

SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return an extension source in a separate tree."""
    path = tmp_path / "records" / "engines" / "native.pyx"
    path.parent.mkdir(parents=True)
    path.touch()
    return path


def fake_python(venv: Path, script: str) -> None:
    command = venv / "bin" / "python"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    command.chmod(0o755)


def test_built_extension_needs_no_note(source: Path) -> None:
    source.with_name(f"native{SUFFIX}").touch()
    assert missing_extension_note(source.parent.parent.parent) is None


def test_missing_compiler_is_one_line(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -pthread")
    note = missing_extension_note(source.parent.parent.parent)
    assert note is not None
    assert "there is no C compiler (no-such-compiler)" in note
    assert "\n" not in note


def test_missing_headers_are_named(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "true")
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert "headers are missing" in str(missing_extension_note(source.parent.parent.parent))


def test_a_free_threaded_python_is_named(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"Py_GIL_DISABLED": 1, "EXT_SUFFIX": ".cpython-314t-x86_64-linux-gnu.so"}
    monkeypatch.setattr(sysconfig, "get_config_var", values.get)
    assert "because this Python is free-threaded" in str(missing_extension_note(source.parent.parent.parent))


@pytest.mark.parametrize("changed", ["native.pyx", "native_read.pxi", "../formats/record_formats.pxd"])
def test_outdated_extension_is_removed(source: Path, changed: str) -> None:
    built = source.with_name(f"native{SUFFIX}")
    built.touch()
    path = source.parent / changed
    path.parent.mkdir(exist_ok=True)
    path.touch()
    os.utime(path, (FUTURE, FUTURE))
    assert missing_extension_note(source.parent.parent.parent) is not None
    assert not built.exists()


def test_extension_is_used_where_it_can_be_built() -> None:
    """A failed build or an unimportable extension must not go unnoticed because the Python engine steps in."""
    reason = obstacle()
    script = (
        "from kafkawire.protocol import codec; from kafkawire.records import BatchBuilder; "
        "print(codec('HeartbeatRequest', 0).engine, BatchBuilder.__module__.rsplit('.')[-1].split('_')[0])"
    )
    inherited = {name: value for name, value in os.environ.items() if name != "KAFKAWIRE_ENGINE"}
    command = [sys.executable, "-c", script]
    engines = subprocess.run(command, env=inherited, capture_output=True, text=True, check=True).stdout.split()
    assert engines == ["native" if reason is None else "python"] * 2


def test_old_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.version_info", (3, 11, 1))
    with pytest.raises(SetupError, match=r"Python 3\.11\.2 or newer is required, but .* is 3\.11\.1"):
        check_python_version()


def test_pip_is_quiet_when_it_succeeds(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fake_python(tmp_path, "echo much noise")
    install_package(tmp_path, ["dev"])
    assert capfd.readouterr().out == f"Installing kafkawire into {tmp_path} with dev\n"


def test_pip_is_heard_when_it_fails(tmp_path: Path) -> None:
    fake_python(tmp_path, "echo no matching distribution; exit 1")
    with pytest.raises(SetupError, match="no matching distribution"):
        install_package(tmp_path, [])


def test_usable_environment_is_kept(tmp_path: Path) -> None:
    fake_python(tmp_path, "exit 0")
    make_venv(tmp_path)
    assert (tmp_path / "bin" / "python").exists()


def test_environment_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_python(tmp_path, "exit 1")
    monkeypatch.setattr("sys.executable", str(tmp_path / "no-python"))
    monkeypatch.setattr(environment, "install_first", lambda *packages: False)
    monkeypatch.setattr(
        environment, "_create", lambda venv: environment._run(["sh", "-c", "echo no ensurepip; exit 1"])
    )
    with pytest.raises(SetupError, match="python3-venv"):
        make_venv(tmp_path)


def test_spark_is_left_out_with_a_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(environment, "find_java", lambda: None)
    monkeypatch.setattr(environment, "install_java", lambda: None)
    assert environment.spark_extra(install=True) == []
    assert "Spark is skipped" in capsys.readouterr().out
    assert environment.spark_extra(install=False) == []
    assert capsys.readouterr().out == ""


def test_kafka_programs_are_installed_or_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = {"java", "mvn"}
    wanted: list[str] = []
    monkeypatch.setattr(shutil, "which", lambda name: name if name in there else None)
    monkeypatch.setattr(environment, "install_first", lambda *packages: wanted.extend(packages))
    environment.install_kafka_programs()
    assert wanted == ["kcat"]
    assert "kcat's tests are skipped" in capsys.readouterr().out
    there.remove("mvn")
    with pytest.raises(SetupError, match="mvn is not on the path; on Debian, it is in the package maven"):
        environment.install_kafka_programs()
