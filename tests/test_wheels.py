"""An archive that has an unwanted file, or lacks a source or its extension, is refused; the error names the file.

Method: check archives that contain only a few names. `make wheels` builds real ones.
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import pytest

from tools import wheels
from tools.wheels import SDIST_FILES, ReleaseError, check_contents, check_sdist

PURE = "kafkawire-1.0-py3-none-any.whl"
NATIVE = "kafkawire-1.0-cp311-cp311-linux_x86_64.whl"
EXTENSION = "kafkawire/sdk/records/native.cpython-311-x86_64-linux-gnu.so"


def wheel(folder: Path, name: str, *files: str) -> Path:
    with zipfile.ZipFile(folder / name, "w") as archive:
        for file in ("kafkawire/__init__.py", *files):
            archive.writestr(file, "")
    return folder / name


def test_right_contents(tmp_path: Path) -> None:
    check_contents(wheel(tmp_path, PURE), native=False)
    check_contents(wheel(tmp_path, PURE, "kafkawire/sdk/protocol/tables/record_codec.pxi"), native=False)
    check_contents(wheel(tmp_path, NATIVE, EXTENSION), native=True)


@pytest.mark.parametrize(
    ("name", "file", "native", "text"),
    [
        (NATIVE, "kafkawire/__main__.py", True, "contains no extension"),
        (PURE, EXTENSION, False, "contains an extension"),
        (PURE, EXTENSION, True, "a wheel with extensions has the wrong tag"),
        (NATIVE, "kafkawire/__main__.py", False, "a wheel without extensions has the wrong tag"),
        (PURE, "kafkawire/native.c", False, r"contains sources of extensions: kafkawire/native\.c"),
        (PURE, "kafkawire/native.pyx", False, r"contains sources of extensions: kafkawire/native\.pyx"),
        (PURE, "kafkawire/native_read.pxi", False, "contains sources of extensions"),
    ],
)
def test_wrong_contents(tmp_path: Path, name: str, file: str, native: bool, text: str) -> None:
    with pytest.raises(ReleaseError, match=text):
        check_contents(wheel(tmp_path, name, file), native)


@pytest.mark.parametrize(
    ("lost", "more", "text"),
    [
        ("", "", ""),
        ("src/kafkawire/sdk/native_read.pxi", "", r"lacks src/kafkawire/sdk/native_read\.pxi"),
        ("LICENSE", "", "lacks LICENSE"),
        ("", "src/kafkawire/sdk/native.c", r"contains src/kafkawire/sdk/native\.c"),
        ("", "src/kafkawire/sdk/native.cpython-311.so", r"contains src/kafkawire/sdk/native\.cpython-311\.so"),
        ("", "sdk/native.pyx", r"contains sdk/native\.pyx"),
        ("", "tests/test_sdk.py", r"contains tests/test_sdk\.py"),
    ],
)
def test_contents_of_an_sdist(tmp_path: Path, lost: str, more: str, text: str) -> None:
    (tmp_path / "sdk").mkdir()
    sources = {"native.pyx", "native.pxd", "native_read.pxi"}
    for name in sources:
        (tmp_path / "sdk" / name).touch()
    names = {f"src/kafkawire/sdk/{name}" for name in (*sources, "frames.py")} | SDIST_FILES
    with tarfile.open(tmp_path / "kafkawire-1.0.tar.gz", "w:gz") as archive:
        for name in (names | {more}) - {lost, ""}:
            archive.addfile(tarfile.TarInfo(f"kafkawire-1.0/{name}"))
    with pytest.raises(ReleaseError, match=text) if text else nullcontext():
        check_sdist(tmp_path / "kafkawire-1.0.tar.gz", tmp_path)


@pytest.mark.parametrize(
    ("options", "versions"), [([], ["{}.{}".format(*sys.version_info)]), (["--every-python"], ["3.99"])]
)
def test_pythons_that_get_a_wheel(options: list[str], versions: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Mapping[str, Path]] = []
    monkeypatch.setattr(wheels, "find_pythons", lambda: {"3.99": Path("python3.99")})
    monkeypatch.setattr(wheels, "build_release", lambda root, out, pythons: asked.append(pythons) or [])
    monkeypatch.setattr(sys, "argv", ["wheels", *options])
    assert wheels.main() == 0
    assert [list(pythons) for pythons in asked] == [versions]


def test_failed_command_is_shown() -> None:
    with pytest.raises(ReleaseError, match=r"exit\(3\).* failed:\nthe reason"):
        wheels._run(sys.executable, "-c", "print('the reason'); exit(3)")
