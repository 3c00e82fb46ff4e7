"""The map has the latest offset of each key, and accepts as many keys as fit.

Method: add keys of all lengths, with limits of a few entries.
"""

from kafkawire.reference_broker.storage.cleaning.key_offsets import KeyOffsets


def test_latest_offset_of_each_key():
    keys = KeyOffsets(2**20)
    for offset, key in enumerate([b"a", b"b", b"a", b""]):
        assert keys.put(memoryview(key), offset)
    assert (len(keys), keys.end_offset) == (3, 4)
    assert [keys.is_latest(b"a", offset) for offset in (0, 1, 2, 3)] == [False, False, True, True]
    assert keys.is_latest(b"b", 1)
    assert not keys.is_latest(b"", 2)
    assert keys.is_latest(b"never seen", 0)


def test_long_keys_are_told_apart():
    keys = KeyOffsets(2**20)
    long = [b"x" * size for size in (31, 32, 33, 34, 10_000)] + [b"x" * 9_999 + b"y"]
    for offset, key in enumerate(long):
        keys.put(key, offset + 10)
    assert len(keys) == len(long)
    assert [keys.is_latest(key, offset + 10) for offset, key in enumerate(long)] == [True] * len(long)
    assert [keys.is_latest(key, offset + 9) for offset, key in enumerate(long)] == [False] * len(long)


def test_only_new_keys_need_room():
    keys = KeyOffsets(500)
    count = next(number for number in range(100) if not keys.put(b"%d" % number, number))
    assert count == len(keys) == 3
    assert keys.end_offset == 3
    assert keys.put(b"1", 50)
    assert not keys.put(b"another", 51)
    assert keys.end_offset == 51


def test_one_key_always_fits():
    keys = KeyOffsets(1)
    assert keys.put(b"k" * 1000, 0)
    assert not keys.put(b"other", 1)
