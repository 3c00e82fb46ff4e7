"""Rebuilt indexes equal the original ones up to the first damaged batch."""

import pytest

from kafkawire.reference_broker.storage.segments.rebuilding import rebuild
from tests.reference_broker.storage.filled_segments import BASE, CONFIG, fill, new


def entries(index):
    return list(zip(index._keys, index._values, strict=True))


@pytest.mark.parametrize("damaged", [None, 0, 7])
def test_rebuild(tmp_path, damaged):
    segment = fill(new(tmp_path, CONFIG))
    headers = list(segment.headers(0))
    end = segment.size_bytes if damaged is None else headers[damaged].position
    if damaged is not None:
        path = tmp_path / f"{BASE:020}.log"
        data = bytearray(path.read_bytes())
        data[end + 70] ^= 1
        path.write_bytes(data)
    whole, whole_times = entries(segment._index), entries(segment._time_index)
    rebuilt = rebuild(segment.file, BASE, CONFIG.index_interval_bytes, *segment._new_indexes())
    expected = [entry for entry in whole if entry[1] < end]
    assert entries(rebuilt.offsets) == expected
    assert entries(rebuilt.times) == whole_times[: len(expected)]
    assert rebuilt.survey.size_bytes == end
    assert (rebuilt.problem is None) == (damaged is None)
    assert rebuilt.problem is None or rebuilt.problem.offset == end
