"""The fuzzer's cases, and the common parts of its targets: golden vectors, and the engines that check a case."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from zlib import crc32

__all__ = ["Case", "Target", "engines_of", "vectors"]

VECTORS = Path(__file__).parent.parent / "conformance" / "vectors"

#: One case in this many also runs on the construct engine, which takes a hundred times as long as the others.
CONSTRUCT_EVERY = 50


class Case(NamedTuple):
    """One input.

    Attributes:
        label: how to interpret the bytes, for the target's check.
        data: the bytes.
    """

    label: str
    data: bytes


class Target(NamedTuple):
    """An entry point for external bytes.

    Attributes:
        inputs: returns the undamaged inputs; called once.
        damage: turns inputs into a case.
        check: returns what is wrong with the product's behaviour, or None if it is correct.
    """

    inputs: Callable[[], Sequence[Case]]
    damage: Callable[[Random, Sequence[Case]], Case]
    check: Callable[[Case], str | None]


def engines_of(case: Case, extension: object, *, with_construct: bool = True) -> list[str]:
    """Return the engines that check a case. Among the built engines, the choice depends only on the bytes."""
    native = ["native"] if extension is not None else []
    construct = ["construct"] if with_construct and crc32(case.data) % CONSTRUCT_EVERY == 0 else []
    return [*native, "python", *construct]


def vectors(name: str) -> Iterator[dict[str, Any]]:
    """Yield the golden vectors of one file."""
    with gzip.open(VECTORS / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
