"""Helpers for the tests of `kafkawire dump`, which write files to dump and return the lines of output."""

from __future__ import annotations

import io
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafkawire.commands.inspection.dump import run
from kafkawire.commands.inspection.dumping.window import Window
from kafkawire.sdk.records import BatchBuilder, Compression, stamp

__all__ = ["batch", "before_fill", "cut_while_read", "dump", "log_name", "objects", "of_kind", "segment"]

START_MS = 1_700_000_000_000


def batch(
    base_offset: int, *values: bytes | None, compression: Compression = Compression.NONE, **options: Any
) -> bytes:
    """Return a batch whose records have these values, one millisecond apart."""
    builder = BatchBuilder(2**31 - 1, compression, **options)
    for number, value in enumerate(values):
        builder.append(START_MS + base_offset + number, b"k%d" % (base_offset + number), value, ())
    data = bytearray(builder.build())
    stamp(data, base_offset, 0)
    return bytes(data)


def log_name(base_offset: int, suffix: str = ".log") -> str:
    return f"{base_offset:020}{suffix}"


def segment(folder: Path, *batches: bytes, base_offset: int = 0, topic: str = "t", suffix: str = ".log") -> Path:
    """Write a file of a partition."""
    folder = folder / f"{topic}-0"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / log_name(base_offset, suffix)
    path.write_bytes(b"".join(batches))
    return path


def cut_while_read(patch: pytest.MonkeyPatch, path: Path, fill: int, size: int) -> None:
    """Truncate a file when a window is filled for the `fill`-th time, counted from 1."""
    before_fill(patch, fill, lambda: os.truncate(path, size))


def before_fill(patch: pytest.MonkeyPatch, fill: int, act: Callable[[], object]) -> None:
    """Change the files, as another process might, when a window is filled for the `fill`-th time, counted from 1."""
    counter = itertools.count(1)
    original = Window._fill

    def act_first(window: Window, position: int, size: int) -> None:
        if next(counter) == fill:
            act()
        original(window, position, size)

    patch.setattr(Window, "_fill", act_first)


@contextmanager
def standard_output() -> Iterator[io.BytesIO]:
    """Yield a stream that receives standard output as bytes."""
    caught = io.BytesIO()
    before, sys.stdout = sys.stdout, io.TextIOWrapper(caught, "utf-8")
    try:
        yield caught
        sys.stdout.flush()
    finally:
        sys.stdout.detach()
        sys.stdout = before


def dump(*arguments: str | Path, code: int | None = 0) -> list[str]:
    """Return the lines that the command prints.

    Args:
        arguments: the command's arguments.
        code: the expected exit status; None for any.
    """
    with standard_output() as caught:
        status = run("kafkawire dump", list(map(str, arguments)))
    lines = caught.getvalue().decode().splitlines()
    assert code in (None, status), lines
    return lines


def objects(*arguments: str | Path, code: int | None = 0) -> list[dict[str, Any]]:
    """Return the JSON objects that the command prints."""
    return [json.loads(line) for line in dump("--json", *arguments, code=code)]


def of_kind(kind: str, found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the objects of one kind, without the member that names the kind."""
    return [{name: value for name, value in each.items() if name != "kind"} for each in found if each["kind"] == kind]
