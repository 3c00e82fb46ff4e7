"""Leader epochs are looked up by offset, stored in Kafka's file, and rebuilt from batches if that file is damaged.

Method: use hand-built files, and pairs in place of batches.
"""

from itertools import islice

import pytest

from kafkawire.reference_broker.storage.disk.disk import read_file, write_file
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.reference_broker.storage.log.epochs import (
    LeaderEpochs,
    load_epochs,
    load_told_epochs,
    read_last_epoch,
    write_last_epoch,
)
from kafkawire.sdk.errors import DecodeError
from tests.reference_broker.storage.filled_logs import CONFIG, SMALL, append, damage_a_length, filled, opened

PATH = "t-0/leader-epoch-checkpoint"


@pytest.fixture
def disk():
    disk = MemoryDisk()
    disk.make_folder("t-0")
    return disk


def test_epoch_at():
    epochs = LeaderEpochs([(2, 10), (5, 20)])
    assert epochs.current == 5
    assert [epochs.at(offset) for offset in (0, 10, 19, 20, 99)] == [2, 2, 2, 5, 5]


@pytest.mark.parametrize(
    ("epoch", "end"),
    [(-1, (-1, -1)), (1, (1, 10)), (2, (2, 20)), (3, (2, 20)), (4, (2, 20)), (5, (5, 33)), (6, (-1, -1))],
)
def test_an_epoch_ends_where_the_next_begins_and_the_last_at_the_end_of_the_log(epoch, end):
    assert LeaderEpochs([(2, 10), (5, 20)]).end_of(epoch, 33) == end


@pytest.mark.parametrize(
    ("end_offset", "entries"),
    [(99, [(0, 0), (3, 20)]), (20, [(0, 0), (3, 20)]), (19, [(0, 0)]), (0, [(0, 0)])],
)
def test_epoch_may_begin_at_the_end_of_the_log_but_not_after_it(disk, end_offset, entries):
    write_file(disk, PATH, b"0\n2\n0 0\n3 20\n")
    epochs = load_epochs(disk, "t-0", 0, end_offset, [])
    assert epochs.entries() == entries
    assert load_epochs(disk, "t-0", 0, end_offset, []).entries() == entries, "the file has the same entries"


def test_new_partition(disk):
    assert load_epochs(disk, "t-0", 0, 0, []).entries() == [(0, 0)]
    assert read_file(disk, PATH) == b"0\n1\n0 0\n"


@pytest.mark.parametrize("content", [None, b"", b"\0\0\0\0", b"0\n2\n0 0\n"])
def test_missing_or_damaged_file_is_rebuilt(disk, caplog, content):
    if content is not None:
        write_file(disk, PATH, content)
    epochs = load_epochs(disk, "t-0", 0, 9, [[(1, 3), (1, 4)], [(2, 7)]])
    assert epochs.entries() == [(1, 3), (2, 7)]
    assert read_file(disk, PATH) == b"0\n2\n1 3\n2 7\n"
    assert ("rebuilt from the batches" in caplog.text) is (content is not None)


def broken(*entries):
    yield from entries
    raise DecodeError("crc", 0, "wrong")


def test_damaged_segment_does_not_hide_the_epochs_of_those_after_it(disk, caplog):
    segments = [broken((1, 3)), broken(), [(1, 20), (5, 25)], broken((5, 30), (6, 31)), [(6, 35)]]
    assert load_epochs(disk, "t-0", 0, 40, segments).entries() == [(1, 3), (5, 25), (6, 31)]
    assert caplog.text.count("t-0: crc") == 3


@pytest.mark.parametrize("after", [[], [[]]])
def test_epochs_go_on_above_those_that_damage_at_the_end_may_hide(disk, after):
    segments = [[(0, 0)], broken((1, 3)), *after]
    assert load_epochs(disk, "t-0", 0, 40, segments, last_epoch=6).entries() == [(0, 0), (1, 3), (7, 40)]
    assert load_epochs(disk, "t-0", 0, 40, []).entries() == [(0, 0), (1, 3), (7, 40)], "the file has the same entries"


def test_damaged_offset_does_not_hide_the_epochs_after_it(disk):
    entries = [(0, 0), (2, 9)]
    assert load_epochs(disk, "t-0", 0, 40, [[(0, 0), (1, 30)], [(2, 9)]]).entries() == entries
    assert load_epochs(disk, "t-0", 0, 40, []).entries() == entries, "the file is in order"


@pytest.mark.parametrize(
    ("byte", "entries"),
    [
        (65, [(0, 0), (1, 10), (2, 15)]),
        (8, [(0, 0), (2, 15)]),
        (16, [(0, 0), (2, 15)]),
    ],
    ids=["body", "length", "magic"],
)
@pytest.mark.parametrize("content", [None, b"0\n2\n0 0\n1 10"])
def test_epoch_does_not_go_back_after_damage(tmp_path, content, byte, entries):
    folder = tmp_path / "t-0"
    filled(folder, CONFIG, batches=5)
    log = opened(folder, CONFIG, is_clean=False)
    for number in range(5):
        append(log, b"%d" % number)
    second = next(islice(log.headers(), 1, None))[1].position
    log.close()
    assert log.epochs.entries() == [(0, 0), (1, 10)]
    (path,) = folder.glob("*.log")
    damaged = bytearray(path.read_bytes())
    damaged[second + byte] ^= 1
    path.write_bytes(damaged)
    checkpoint = folder / "leader-epoch-checkpoint"
    if content is None:
        checkpoint.unlink()
    else:
        checkpoint.write_bytes(content)
    again = opened(folder, CONFIG, last_epoch=1, recovery_point=15)
    assert again.epochs.entries() == entries
    assert append(again, b"after").base_offset == 15


def test_log_with_a_damaged_segment_knows_the_epochs_after_it(tmp_path):
    folder = tmp_path / "t-0"
    filled(folder).close()
    log = opened(folder, SMALL, is_clean=False, recovery_point=None)
    for number in range(10):
        append(log, b"%d" % number)
    log.close()
    entries = log.epochs.entries()
    assert len(entries) == 2
    damage_a_length(sorted(folder.glob("*.log"))[1])
    (folder / "leader-epoch-checkpoint").unlink()
    assert opened(folder, SMALL).epochs.entries() == entries


@pytest.mark.parametrize(
    ("offset", "entries"),
    [(5, [(2, 10), (5, 20)]), (10, [(2, 10), (5, 20)]), (15, [(2, 15), (5, 20)]), (20, [(5, 20)]), (33, [(5, 33)])],
)
def test_epochs_begin_where_the_log_does(disk, offset, entries):
    epochs = LeaderEpochs([(2, 10), (5, 20)])
    epochs.begin_at(offset)
    assert (epochs.entries(), epochs.is_stored) == (entries, entries == [(2, 10), (5, 20)])
    epochs.store(disk, "t-0")
    assert epochs.is_stored
    content = "".join(f"{epoch} {start}\n" for epoch, start in entries)
    assert read_file(disk, PATH) == (None if offset <= 10 else f"0\n{len(entries)}\n{content}".encode())


@pytest.mark.parametrize(
    ("offset", "entries"),
    [(99, [(2, 10), (5, 20), (8, 99)]), (20, [(2, 10), (8, 20)]), (10, [(8, 10)])],
)
def test_new_epoch_takes_the_place_of_one_in_which_nothing_was_written(offset, entries):
    epochs = LeaderEpochs([(2, 10), (5, 20)])
    epochs.begin(8, offset)
    assert (epochs.entries(), epochs.is_stored) == (entries, False)


@pytest.mark.parametrize(
    ("content", "end_offset", "entries"),
    [
        (None, 0, [(1, 0)]),
        (b"0\n1\n0 0\n", 9, [(0, 0), (1, 9)]),
        (b"0\n2\n0 0\n3 20\n", 30, [(0, 0), (3, 20), (4, 30)]),
        (b"0\n2\n0 0\n3 20\n", 20, [(0, 0), (4, 20)]),
        (b"0\n2\n0 0\n3 20\n", 15, [(0, 0), (4, 15)]),
    ],
)
def test_epoch_that_begins_after_a_crash_was_never_there(disk, content, end_offset, entries):
    if content is not None:
        write_file(disk, PATH, content)
    assert load_epochs(disk, "t-0", 0, end_offset, [], is_cut=True).entries() == entries
    assert load_epochs(disk, "t-0", 0, end_offset, []).entries() == entries, "the file has the same entries"


def test_file_that_could_not_be_written_is_written_again(disk):
    epochs = LeaderEpochs([(0, 0)])
    epochs.begin(1, 5)
    disk.plan = fail_at(disk.calls + 1)
    with pytest.raises(OSError, match="planned"):
        epochs.store(disk, "t-0")
    disk.plan = None
    epochs.store(disk, "t-0")
    assert load_epochs(disk, "t-0", 0, 5, []).entries() == [(0, 0), (1, 5)]


def test_epoch_that_begins_is_higher_than_any_that_clients_may_have_seen(disk):
    write_last_epoch(disk, 0, [4, 7, 2])
    epochs = load_epochs(disk, "t-0", 0, 5, [[(0, 0)]], last_epoch=read_last_epoch(disk), is_cut=True)
    assert epochs.entries() == [(0, 0), (8, 5)]


@pytest.mark.parametrize(("epochs", "last"), [([], 0), ([0, 0], 0), ([3, 1], 3)])
def test_last_epoch(disk, epochs, last):
    write_last_epoch(disk, 0, epochs)
    assert read_last_epoch(disk) == last
    calls = disk.calls
    write_last_epoch(disk, last, [last])
    assert disk.calls == calls, "nothing has changed"
    assert read_last_epoch(disk.crash(1)) == last, "the file is durable"


@pytest.mark.parametrize("content", [b"high", b"-1", b"2147483647", b"9" * 5000, b"\xff"])
def test_damaged_last_epoch_is_left_out(disk, caplog, content):
    write_file(disk, "last-leader-epoch", content)
    assert read_last_epoch(disk) == 0
    assert "is not a leader epoch" in caplog.text


@pytest.mark.parametrize(
    ("content", "entries"),
    [
        (b"0\n2\n0 0\n4 5\n", [(0, 0), (4, 5), (7, 9)]),  # as it was before the last epoch, which a power cut lost
        (b"0\n2\n0 0\n7 9\n", [(0, 0), (7, 9)]),
        (b"0\n2\n0 0\n7 5\n", [(0, 0), (7, 5)]),
        (b"", [(1, 3), (7, 9)]),
        (None, [(1, 3), (7, 9)]),
    ],
)
def test_no_partition_starts_below_the_highest_epoch_of_the_last_start(disk, content, entries):
    if content is not None:
        write_file(disk, PATH, content)
    for _ in range(2):
        assert load_epochs(disk, "t-0", 0, 9, [[(1, 3)]], last_epoch=7).entries() == entries


# In a cluster.


@pytest.mark.parametrize(
    ("epoch", "offset", "entries"),
    [
        (5, 25, [(2, 10), (5, 20)]),
        (6, 25, [(2, 10), (5, 20), (6, 25)]),
        (3, 25, [(2, 10), (5, 20)]),
        # The log has no record in the last epoch.
        (3, 20, [(2, 10), (3, 20)]),
        (2, 20, [(2, 10)]),
        (7, 20, [(2, 10), (7, 20)]),
        (0, 10, [(0, 10)]),
    ],
)
def test_epoch_of_a_batch_is_noted(epoch, offset, entries):
    epochs = LeaderEpochs([(2, 10), (5, 20)])
    epochs.note(epoch, offset)
    assert epochs.entries() == entries
    assert epochs.current == entries[-1][0]
    assert epochs.is_stored is (entries == [(2, 10), (5, 20)])


@pytest.mark.parametrize(
    ("offset", "entries"),
    [(30, [(2, 10), (5, 20)]), (21, [(2, 10), (5, 20)]), (20, [(2, 10)]), (11, [(2, 10)]), (10, []), (0, [])],
)
def test_epochs_end_with_the_log(offset, entries):
    epochs = LeaderEpochs([(2, 10), (5, 20)])
    epochs.end_at(offset)
    assert epochs.entries() == entries
    assert epochs.current == (entries[-1][0] if entries else -1)


def test_no_epoch():
    epochs = LeaderEpochs([])
    epochs.begin_at(10)
    assert (epochs.current, epochs.at(7), epochs.end_of(0, 5), epochs.end_of(-1, 5)) == (-1, -1, (-1, -1), (-1, -1))
    epochs.begin(4, 12)
    assert epochs.end_of(3, 20) == (3, 12)


@pytest.mark.parametrize(
    ("content", "checked_from", "entries"),
    [
        (b"0\n2\n1 0\n3 20\n", 50, [(1, 0), (3, 20)]),
        (b"0\n2\n1 0\n3 20\n", 15, [(1, 0), (4, 30)]),
        (b"0\n3\n1 0\n3 20\n9 50\n", 50, [(1, 0), (3, 20)]),
        (b"0\n0\n", 50, []),
        (b"", 50, [(1, 5), (4, 30)]),
        (None, 50, [(1, 5), (4, 30)]),
    ],
    ids=["stored", "unsynced", "after the end", "none", "damaged", "missing"],
)
def test_told_epochs_are_those_of_the_batches(disk, content, checked_from, entries):
    if content is not None:
        write_file(disk, PATH, content)
    batches = {0: [(1, 5)], 15: [(-1, 15), (1, 16)], 30: [(4, 30), (4, 31)]}

    def segments(from_offset):
        return [starts for base, starts in batches.items() if base >= from_offset]

    assert load_told_epochs(disk, "t-0", 0, 50, checked_from, segments).entries() == entries
    assert load_told_epochs(disk, "t-0", 0, 50, 50, segments).entries() == entries, "the file has the same entries"


@pytest.mark.parametrize(
    ("start_offset", "entries"),
    [(0, [(1, 0), (3, 20)]), (7, [(1, 7), (3, 20)]), (20, [(3, 20)]), (49, [(3, 49)]), (50, [(3, 50)])],
)
def test_epochs_before_the_start_are_dropped_at_an_opening(disk, start_offset, entries):
    write_file(disk, PATH, b"0\n2\n1 0\n3 20\n")
    assert load_told_epochs(disk, "t-0", start_offset, 50, 50, lambda offset: []).entries() == entries
    write_file(disk, PATH, b"0\n2\n1 0\n3 20\n")
    assert load_epochs(disk, "t-0", start_offset, 50, []).entries() == entries


@pytest.mark.parametrize(
    ("start_offset", "entries"),
    [(0, [(1, 0), (2, 5), (3, 12)]), (7, [(2, 7), (3, 12)]), (12, [(3, 12)]), (20, [(3, 20)])],
)
def test_epochs_after_a_start_that_was_set_back_come_from_the_batches(disk, start_offset, entries):
    """A crash has left an older checkpoint of the log start, but the file has no epochs before the newer start."""
    write_file(disk, PATH, b"0\n1\n3 20\n")
    read = []

    def from_start():
        for entry in ((1, 0), (1, 4), (2, 5), (3, 12), (3, 20), (3, 30)):
            read.append(entry)
            yield entry

    assert load_told_epochs(disk, "t-0", start_offset, 50, 50, lambda offset: [], from_start()).entries() == entries
    assert read == ([] if start_offset == 20 else [(1, 0), (1, 4), (2, 5), (3, 12), (3, 20)]), (
        "no more is read than is needed"
    )
    assert load_told_epochs(disk, "t-0", start_offset, 50, 50, lambda offset: [], broken()).entries() == entries


def test_told_epochs_after_damage_are_unknown(disk, caplog):
    found = load_told_epochs(disk, "t-0", 0, 50, 0, lambda offset: [broken((1, 3)), [(4, 20)]])
    assert found.entries() == [(1, 3), (4, 20)]
    assert "may be unknown" in caplog.text


def test_prepared_file_is_durable(disk):
    epochs = LeaderEpochs([(0, 0)])
    epochs.begin(1, 5)
    work = epochs.prepared(disk, "t-0")
    epochs.begin(2, 9)
    work()
    disk.sync_folder("")
    assert read_file(disk.crash(1), PATH) == b"0\n2\n0 0\n1 5\n"
    assert not epochs.is_stored
    disk.plan = fail_at(disk.calls + 1)
    with pytest.raises(OSError, match="planned"):
        epochs.prepared(disk, "t-0")()
    assert not epochs.is_stored
