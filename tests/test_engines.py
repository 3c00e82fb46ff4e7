"""Parts with the same purpose have the same name in both engines, and every part is in a folder named `engines`.

Method: compare the file names; a table gives the reason for each part that only one engine has.
"""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

ROOMS = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("sdk/**/engines") if path.is_dir())

#: Files that belong to neither engine, or to both.
BESIDE = {"__init__", "selection"}

#: Parts of the extension or the Python engine that have no counterpart in the other.
ALONE = {
    "sdk/protocol/engines": {
        "native_interned": "Python shares what it wants to share",
        "native_network_order": "Python has `struct`",
        "native_objects": "it makes objects as CPython does",
        "native_read": "Python runs the text of `python_text.py`",
        "native_records": "Python has memoryviews",
        "native_write": "Python runs the text of `python_text.py`",
        "python_text": "the extension interprets the layout",
    },
    "sdk/records/engines": {
        "native": "puts the parts together, which are one module in C",
        "native_numbers": "Python's are in `record_codec.py`, which is generated",
    },
}


def names(room: str) -> set[str]:
    suffixes = {".py", ".pyx", ".pxi", ".pxd"}
    return {path.name.split(".")[0] for path in (ROOT / room).iterdir() if path.suffix in suffixes}


def test_rooms() -> None:
    assert len(ROOMS) == 4
    outside = [path for path in ROOT.glob("sdk/**/*.p[xy][xdi]") if path.suffix in (".pyx", ".pxi", ".pxd")]
    parents = {path.parent.relative_to(ROOT).as_posix() for path in outside}
    assert parents - {"sdk/protocol/tables"} == set(ROOMS), "generated parts must be next to their tables"


@pytest.mark.parametrize("room", ROOMS)
def test_names_begin_with_the_engine(room: str) -> None:
    engines = {name.split("_")[0] for name in names(room) - BESIDE}
    assert engines - {"shared", "construct"} == {"native", "python"}


@pytest.mark.parametrize("room", ROOMS)
def test_what_does_the_same_has_the_same_name(room: str) -> None:
    native = {name.removeprefix("native") for name in names(room) if name.startswith("native")}
    python = {name.removeprefix("python") for name in names(room) if name.startswith("python")}
    alone = {f"native{part}" for part in native - python} | {f"python{part}" for part in python - native}
    assert alone == set(ALONE.get(room, {}))
