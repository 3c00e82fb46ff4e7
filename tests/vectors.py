"""Read the conformance suite's golden vectors, for tests of a single codec or rule."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["FOLDER", "read_table", "read_vectors"]

#: The folder of the vectors; its `README.md` describes every file and its fields.
FOLDER = Path(__file__).parent.parent / "conformance" / "vectors"


def read_vectors(name: str) -> Iterator[dict[str, Any]]:
    """Yield the vectors in one file, in order.

    Args:
        name: the name of the file without `.jsonl.gz`.
    """
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def read_table(name: str) -> Any:
    """Return the content of one JSON file.

    Args:
        name: the name of the file without `.json`.
    """
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
