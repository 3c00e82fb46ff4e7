"""What a broker notes about cleaning is read from the folders of its data; a damaged file says nothing.

Method: files written by hand beside partitions.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed: the extra `arrow` brings it")

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.spark.audit.cleaning import cleaned_offsets
from kafkawire.sdk.spark.segments.storage import SegmentFiles
from tests.sdk.spark.segments.logs import batch, write_segment


def test_several_folders(tmp_path: Path) -> None:
    """A partition that was moved is in both, and counts as cleaned up to the higher offset."""
    for name, content in (("a", "0\n2\nt 0 20\nt-x 1 7\n"), ("b", "0\n1\nt 0 15\n"), ("c", None)):
        write_segment(tmp_path / name / f"{name}-0", [batch(0)])
        write_segment(tmp_path / name / f"{name}-0", [batch(10)])
        if content is not None:
            (tmp_path / name / "cleaner-offset-checkpoint").write_text(content)
    files = SegmentFiles([str(tmp_path)])
    assert cleaned_offsets(files, files.find()) == {TopicPartition("t", 0): 20, TopicPartition("t-x", 1): 7}
