"""A wheel that holds what it should not, or lacks its extension, is refused by name.

Method: archives with a few names in them. That real ones are built is seen by `make wheels`.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from tools import wheels
from tools.wheels import ReleaseError, check_contents

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
        (NATIVE, "kafkawire/__main__.py", True, "holds no extension"),
        (PURE, EXTENSION, False, "holds an extension"),
        (PURE, EXTENSION, True, "a wheel with extensions has another tag"),
        (NATIVE, "kafkawire/__main__.py", False, "a wheel without extensions has another tag"),
        (PURE, "kafkawire/native.c", False, r"holds sources of extensions: kafkawire/native\.c"),
        (PURE, "kafkawire/native.pyx", False, r"holds sources of extensions: kafkawire/native\.pyx"),
        (PURE, "kafkawire/native_read.pxi", False, "holds sources of extensions"),
    ],
)
def test_wrong_contents(tmp_path: Path, name: str, file: str, native: bool, text: str) -> None:
    with pytest.raises(ReleaseError, match=text):
        check_contents(wheel(tmp_path, name, file), native)


def test_failed_command_is_shown() -> None:
    with pytest.raises(ReleaseError, match=r"exit\(3\).* failed:\nthe reason"):
        wheels._run(sys.executable, "-c", "print('the reason'); exit(3)")
