"""Keys are assigned to the partitions that Kafka's own clients choose.

Method: compare with hashes that Apache Kafka's own `Utils.murmur2` computed, one for each length of the last word.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.client.partitioner import murmur2, murmur2_partition

HASHES = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize(("key", "signed"), HASHES)
def test_hash(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % 2**32


@pytest.mark.parametrize(("key", "signed"), HASHES)
@pytest.mark.parametrize("partitions", [1, 2, 7, 1000])
def test_partition(key: bytes, signed: int, partitions: int) -> None:
    assert murmur2_partition(key, partitions) == (signed & 0x7FFFFFFF) % partitions
