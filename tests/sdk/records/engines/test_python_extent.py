"""Python finds the same extent as the extension, provided that batches are whole and of magic 2.

Method: cut consecutive batches at every byte; `test_extent.py` has the other cases.
"""

from __future__ import annotations

from kafkawire.sdk.records.engines import selection
from kafkawire.sdk.records.engines.python_extent import Extent, read_extent
from tests.needs import EXTENSION
from tests.sdk.records.conftest import batch_of


def test_whole_batches() -> None:
    data = batch_of(base_offset=10, partition_leader_epoch=7)
    assert read_extent(b"", "python") == Extent()
    assert read_extent(data, "python") == Extent(len(data), 14, 7, 14, 4)


@EXTENSION.mark
def test_the_extension_finds_the_same() -> None:
    assert selection.built is not None
    first, second = batch_of(partition_leader_epoch=7), batch_of(base_offset=4, partition_leader_epoch=8)
    for size in range(len(first), len(first + second) + 1):
        found = read_extent((first + second)[:size], "python")
        assert selection.built.read_extent((first + second)[:size])[:5] == found[:5], size
