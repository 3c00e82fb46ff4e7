"""A streaming query without Spark; it calls a reader in the order in which Spark would."""

from __future__ import annotations

import json
import pickle
from abc import ABC, abstractmethod
from typing import Any

__all__ = ["Rows", "StreamQuery", "rows_of"]

Rows = list[tuple[int, int]]


class StreamQuery(ABC):
    """The checkpoint of a query, and its rows as (partition, offset).

    Attributes:
        options: the reader's options; their current values are used in a restart.
        reader: the current reader.
        rows: the rows that `take_all` has read.
        offsets: the start of the query, followed by the ends of the micro-batches.
    """

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options
        self.rows: Rows = []
        self.offsets: list[Any] = []
        self.start()

    @abstractmethod
    def new_reader(self) -> Any:
        """Return a reader for the columns partition and offset."""

    def start(self) -> None:
        """Start, or restart from nothing but the checkpoint."""
        self.reader = self.new_reader()
        if not self.offsets:
            self.offsets.append(json.loads(json.dumps(self.reader.initialOffset())))

    def start_again(self, **options: str) -> None:
        """Stop and restart, with these options changed."""
        self.reader.stop()
        self.options.update(options)
        self.start()

    def plan(self) -> bool:
        """Write the end of the next micro-batch to the checkpoint, and return whether there is one."""
        end = self.reader.latestOffset(self.offsets[-1], self.reader.getDefaultReadLimit())
        self.offsets.append(json.loads(json.dumps(end)))
        return self.offsets[-1] != self.offsets[-2]

    def run(self) -> Rows:
        """Return the rows of the planned micro-batch."""
        worker = pickle.loads(pickle.dumps(self.reader))
        tasks = pickle.loads(pickle.dumps(self.reader.partitions(*self.offsets[-2:])))
        found = [row for task in tasks for rows in worker.read(task) for row in rows.to_pylist()]
        return [(row["partition"], row["offset"]) for row in found]

    def take_all(self) -> list[int]:
        """Run micro-batches until nothing is left, and return the number of rows in each."""
        sizes = []
        while self.plan():
            rows = self.run()
            self.rows += rows
            sizes.append(len(rows))
        self.offsets.pop()
        return sizes


def rows_of(*ends: int) -> Rows:
    return [(partition, offset) for partition, end in enumerate(ends) for offset in range(end)]
