"""Every engine's columns can be copied and pickled, and indexes outside their range are refused.

Method: use the columns of small batches: compressed, plain and of magic 1.
"""

from __future__ import annotations

import copy
import pickle

import pytest

from kafkawire.sdk.records import Compression, walk
from kafkawire.sdk.records.columns import columns
from tests.sdk.records.conftest import batch_of, message_set


def test_indexes_outside(engine: str) -> None:
    (batch,) = walk(batch_of([(1, None, b"v", ()), (1, b"k", None, ())]), engine=engine)
    found = batch.columns()
    for column in (found.keys, found.values):
        for index in (-1, 2, 5, 2**70):
            with pytest.raises(IndexError, match=f"^there is no value {index} among 2$"):
                column.at(index)


@pytest.mark.parametrize("data", [batch_of(compression=Compression.LZ4), batch_of(), message_set(1)], ids=range(3))
def test_copies(engine: str, data: bytes) -> None:
    buffer = bytearray(data)
    found = columns(walk(buffer, engine=engine), headers=True)
    expected = found.to_arrow()
    pickled = pickle.dumps(found)
    assert len(pickled) < 2 * (len(bytes(found.values.data[0])) + 1000)  # keys and values share their buffers
    for copied in (pickle.loads(pickled), copy.deepcopy(found)):
        assert copied.to_arrow().equals(expected)
        assert all(one is other for one, other in zip(copied.keys.data, copied.values.data, strict=True))
    assert pickle.loads(pickle.dumps(found.values)).at(0) == found.values.at(0)
