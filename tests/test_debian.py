"""For root with apt-get, the first available package is installed, and the package lists are fetched only once.

Method: use an `apt-get` in a temporary folder that records its calls.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools import debian
from tools.debian import can_install, install_first, may_install


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that records the calls; apt-get fails for the package `missing`, and the user seems root."""
    program = tmp_path / "apt-get"
    program.write_text(
        f'#!/bin/sh\necho "$@" | sed "s/.*recommends //" >> {tmp_path}/calls\ncase "$*" in *missing*) exit 1;; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    debian._update.cache_clear()
    return tmp_path / "calls"


def test_first_that_can_be_installed(calls: Path) -> None:
    assert install_first("missing", "there", "another")
    assert install_first("second")
    assert calls.read_text().splitlines() == ["update", "install missing", "install there", "install second"]


def test_package_is_known(calls: Path) -> None:
    assert can_install("there")
    assert not can_install("missing")
    assert calls.read_text().splitlines() == ["install --simulate there", "install --simulate missing"]


def test_none_can_be_installed(calls: Path) -> None:
    assert not install_first("missing")
    assert calls.exists()


def test_other_users_install_nothing(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not may_install()
    assert not can_install("there")
    assert not install_first("there")
    assert not calls.exists()


@pytest.mark.usefixtures("calls")
def test_machine_without_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert not may_install()
