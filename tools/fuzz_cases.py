"""Cases of the fuzzer, and what its targets share: the golden vectors, and which engines check a case."""

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
        label: what the bytes are taken for, as the target's check reads it.
        data: the bytes.
    """

    label: str
    data: bytes


class Target(NamedTuple):
    """One place where bytes from outside come in.

    Attributes:
        inputs: gives the undamaged inputs; called once.
        damage: makes a case of them.
        check: returns what is wrong with what the product does, or None.
    """

    inputs: Callable[[], Sequence[Case]]
    damage: Callable[[Random, Sequence[Case]], Case]
    check: Callable[[Case], str | None]


def engines_of(case: Case, extension: object, *, with_construct: bool = True) -> list[str]:
    """Return the engines that check a case; apart from what is built, the choice depends on the bytes only."""
    native = ["native"] if extension is not None else []
    construct = ["construct"] if with_construct and crc32(case.data) % CONSTRUCT_EVERY == 0 else []
    return [*native, "python", *construct]


def vectors(name: str) -> Iterator[dict[str, Any]]:
    """Give the golden vectors of one file."""
    with gzip.open(VECTORS / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
