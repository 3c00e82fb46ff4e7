"""Audits that go on never mix two logs, whatever became of the files between them.

Goal: an audit that goes on has read the log that is there: the batch before the place where it goes on is the one that
it has read, or was removed. It is refused exactly otherwise, and then a new audit reads all of it.

Method: stories of a partition that grows, rolls, loses old segments, is deleted and made anew, or comes back from an
older backup, and of audits in between. A model knows each batch by the producer that stands for its origin.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="pyarrow is not installed: the extra `arrow` brings it")

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.spark.audit.continuation import check_continuation
from kafkawire.sdk.spark.segments.storage import SegmentFiles
from tests.sdk.spark.segments.logs import TIME_MS, batch, write_segment
from tests.sdk.stories import NOTHING, Step, steps, told

KINDS: dict[str, tuple[st.SearchStrategy[Any], ...]] = {
    "append": (st.integers(1, 3),),
    "append more": (st.integers(1, 3),),
    "roll": (),
    "remove": (),
    "make anew": (),
    "restore": (st.integers(0, 3),),
    "audit": (),
    "audit again": (),
}


class Made(NamedTuple):
    """A batch of the model.

    Attributes:
        first, end: offsets, the end exclusive.
        origin: which life of the partition it comes from.
    """

    first: int
    end: int
    origin: int

    @property
    def data(self) -> bytes:
        """The bytes of the batch."""
        return batch(self.first, self.end - self.first, producer_id=self.origin, producer_epoch=0, base_sequence=0)

    @property
    def noted(self) -> list[int]:
        """What an audit notes of it."""
        return [self.first, self.origin, 0, 0, TIME_MS + self.end - 1, self.end - self.first]


class Scene:
    """A partition, its model and an audit.

    Attributes:
        segments: those that are there, none without a batch but the last.
        read_to: up to where the audit has read.
        last: the batch that it has read last.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._origin = 0
        self.segments: list[list[Made]] = [[]]
        self.forget()

    def forget(self) -> None:
        """Begin an audit in another folder."""
        self.read_to = 0
        self.last: Made | None = None

    @property
    def batches(self) -> list[Made]:
        """All that are there."""
        return [each for segment in self.segments for each in segment]

    def act(self, step: Step) -> None:
        if step == NOTHING:
            return
        name, *arguments = step
        getattr(self, "_" + name.replace(" more", "").replace(" again", "").replace(" ", "_"))(*arguments)

    def _append(self, records: int) -> None:
        end = self.batches[-1].end if self.batches else 0
        self.segments[-1].append(Made(end, end + records, self._origin))

    def _roll(self) -> None:
        if self.segments[-1]:
            self.segments.append([])

    def _remove(self) -> None:
        if len(self.segments) > 1 and self.segments[1]:
            del self.segments[0]

    def _make_anew(self) -> None:
        self._origin += 1
        self.segments = [[]]

    def _restore(self, lost: int) -> None:
        """Take the last batches away, as an older backup has not got them; what comes then is of another origin."""
        self._origin += 1
        for _ in range(lost):
            if self.segments[-1]:
                self.segments[-1].pop()

    def _audit(self) -> None:
        if not self.batches:
            return
        shutil.rmtree(self._folder / "t-0", ignore_errors=True)
        for segment in filter(None, self.segments):
            write_segment(self._folder / "t-0", [each.data for each in segment])
        is_refused = not self._goes_on()
        assert self._is_refused() == is_refused
        if is_refused:
            self.forget()
            assert not self._is_refused(), "a new audit reads whatever is there"
        self.read_to, self.last = self.batches[-1].end, self.batches[-1]

    def _goes_on(self) -> bool:
        """Return whether all that was read is there as it was, or removed."""
        if self.read_to <= self.batches[0].first:
            return True
        before = [each for each in self.batches if each.first < self.read_to]
        return before[-1] == self.last

    def _is_refused(self) -> bool:
        files = SegmentFiles([str(self._folder)])
        noted = {"t": {"0": self.last.noted}} if self.last is not None else {}
        try:
            check_continuation(files, files.find(), {"t": {"0": self.read_to}}, noted, "/audits/shop")
        except ConfigurationError:
            return True
        return False


@told(40)
@given(steps(KINDS, longest=25))
def test_stories(story: list[Step]) -> None:
    with TemporaryDirectory() as folder:
        scene = Scene(Path(folder))
        for step in [*story, ("audit",), ("append", 1), ("audit",)]:
            scene.act(step)
