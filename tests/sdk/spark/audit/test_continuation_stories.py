"""An audit that continues an earlier one never mixes two logs.

Goal: an audit continues only in the log that it has read. The batch before the place where it continues is the last one
    that it read, or retention has removed that batch. Otherwise, the audit is refused, and a new audit reads the log
    from its beginning.

Method: run stories about a partition that grows, rolls, loses old segments, is deleted and recreated, or is restored
from an older backup, and about audits in between. In the model, the producer id of a batch identifies the log from
which it came.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="pyarrow is not installed: the extra `arrow` brings it")

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.spark.audit.continuation import check_continuation
from kafkawire.sdk.spark.segments.storage import SegmentFiles
from tests.sdk.spark.segments.logs import TIME_MS, batch, write_segment
from tests.sdk.stories import Kinds, Step, run_stories, steps

KINDS: Kinds = {
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
    """A batch in the model.

    Attributes:
        first, end: the range of offsets, with an exclusive end.
        origin: the number of the log to which it was written.
    """

    first: int
    end: int
    origin: int

    @property
    def data(self) -> bytes:
        """The batch's bytes."""
        return batch(self.first, self.end - self.first, producer_id=self.origin, producer_epoch=0, base_sequence=0)

    @property
    def noted(self) -> list[int]:
        """The note that an audit makes about the batch."""
        return [self.first, self.origin, 0, 0, TIME_MS + self.end - 1, self.end - self.first]


class Scene:
    """A partition, its model, and an audit.

    Attributes:
        segments: the log's segments; only the last one may be empty.
        read_to: the offset up to which the audit has read.
        last: the last batch that it has read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._origin = 0
        self.segments: list[list[Made]] = [[]]
        self.forget()

    def forget(self) -> None:
        """Forget the audit, as if the next one had a new folder."""
        self.read_to = 0
        self.last: Made | None = None

    @property
    def batches(self) -> list[Made]:
        """All batches in the log."""
        return [each for segment in self.segments for each in segment]

    def act(self, step: Step) -> None:
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
        """Remove the last batches, which an older backup lacks; batches written after that get another origin."""
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
            assert not self._is_refused(), "a new audit must never be refused"
        self.read_to, self.last = self.batches[-1].end, self.batches[-1]

    def _goes_on(self) -> bool:
        """Return whether every batch that was read still exists or was removed by retention."""
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


@run_stories(40)
@given(steps(KINDS, longest=25))
def test_an_audit_continues_only_in_the_log_that_it_has_read(story: list[Step]) -> None:
    with TemporaryDirectory() as folder:
        scene = Scene(Path(folder))
        for step in [*story, ("audit",), ("append", 1), ("audit",)]:
            scene.act(step)
