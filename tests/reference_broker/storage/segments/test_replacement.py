"""No matter when the power is cut, a folder has either the old segments or the new one, never both or neither.

Method: swap files that contain their own names, on an in-memory disk, and cut the power at every call of the swap and
of the recovery that completes it.
"""

import pytest

from kafkawire.reference_broker.storage.disk.disk import read_file
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, PowerCut, cut_power_at
from kafkawire.reference_broker.storage.segments.replacement import commit, complete, discard, prepare, settle
from tests.thorough import sampled

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
OLD = (10, 20, 30)


def name_of(base, suffix):
    return f"{base:020}{suffix}"


def write(disk, name, content):
    file = disk.open(f"t-0/{name}", create=True)
    file.append(content)
    file.sync()


def prepared(new=SUFFIXES, content=b"new"):
    """Return a disk with three old segments, a segment after them, and the files of the new segment."""
    disk = MemoryDisk()
    disk.make_folder("t-0")
    for base in (*OLD, 40):
        for suffix in SUFFIXES[: 4 if base != 20 else 3]:
            write(disk, name_of(base, suffix), b"old%d" % base)
    disk.sync_folder("")
    disk.sync_folder("t-0")
    for suffix in new:
        write(disk, name_of(10, suffix) + ".cleaned", content)
    return disk


def state_of(disk):
    """Return the content of the relevant files after the recovery at startup."""
    settle(disk, "t-0", disk.names("t-0"))
    assert not settle(disk, "t-0", disk.names("t-0")), "a second recovery has nothing left to do"
    found = {name: read_file(disk, f"t-0/{name}") for name in disk.names("t-0") if not name.endswith(".deleted")}
    logs = {int(name[:20]) for name in found if name.endswith(".log")}
    # Startup removes indexes without a segment.
    return {name: content for name, content in found.items() if int(name[:20]) in logs}


def expected(new=SUFFIXES, content=b"new"):
    rest = {name_of(40, suffix): b"old40" for suffix in SUFFIXES}
    return {name_of(10, suffix): content for suffix in new} | rest


OLD_STATE = {name_of(b, s): b"old%d" % b for b in (*OLD, 40) for s in SUFFIXES[: 4 if b != 20 else 3]}


def test_swap():
    disk = prepared()
    prepare(disk, "t-0", 10, [20, 30])
    commit(disk, "t-0", 10)
    retired = complete(disk, "t-0")
    assert len(retired) == 11
    assert all((read_file(disk, path) or b"")[:3] == b"old" for path in retired)
    assert state_of(disk) == expected()


def test_discard_leaves_the_old_ones():
    disk = prepared()
    discard(disk, "t-0")
    assert {name: read_file(disk, f"t-0/{name}") for name in disk.names("t-0")} == OLD_STATE


@pytest.mark.parametrize("new", sampled([(SUFFIXES,), (SUFFIXES[:3],)], 2))
@pytest.mark.parametrize("content", sampled([b"new", b""], 2))
def test_power_goes_at_every_call(new, content):
    number, is_done, seen = 0, False, []
    while not is_done:
        number += 1
        disk = prepared(new, content)
        disk.plan = cut_power_at(disk.calls + number)
        try:
            prepare(disk, "t-0", 10, [20, 30])
            commit(disk, "t-0", 10)
            complete(disk, "t-0")
            is_done = True
        except PowerCut:
            pass
        for seed in (None, *range(6)):
            left = disk.crash(seed)
            again = left.crash()
            state = state_of(left)
            assert state in (OLD_STATE, expected(new, content))
            seen.append(state == OLD_STATE)
            # The power is also cut during the recovery.
            for second in range(1, 40, 3):
                twice = again.crash()
                twice.plan = cut_power_at(second)
                try:
                    settle(twice, "t-0", twice.names("t-0"))
                except PowerCut:
                    assert state_of(twice.crash(second)) == state
    assert number > 15
    assert {True, False} == set(seen)


def test_folder_without_leftovers_is_left_alone():
    disk = prepared(())
    calls = disk.calls
    assert not settle(disk, "t-0", [name_of(10, ".log"), name_of(10, ".log.deleted"), "leader-epoch-checkpoint"])
    assert disk.calls == calls


@pytest.mark.parametrize("base", [10, 40, 99])
def test_empty_mark_of_no_compaction_replaces_nothing(base, caplog):
    disk = prepared(())
    write(disk, name_of(base, ".log.swap"), b"")
    assert state_of(disk) == OLD_STATE
    assert name_of(base, ".log.swap") not in disk.names("t-0")
    assert f"{name_of(base, '.log.swap')}: removing an empty file" in caplog.text


def test_segment_that_was_swapped_without_indexes_counts_as_in_apache_kafka(caplog):
    caplog.set_level("INFO")
    disk = prepared(())
    write(disk, name_of(10, ".log.swap"), b"new")
    assert state_of(disk)[name_of(10, ".log")] == b"new"
    assert f"completing an interrupted compaction with {name_of(10, '.log.swap')}" in caplog.text


def test_other_files_with_such_names_are_left_alone():
    disk = prepared()
    for name in ("x.swap", "x.log.swap", "x.cleaned", "5.log.cleaned"):
        write(disk, name, b"of somebody else")
    prepare(disk, "t-0", 10, [20, 30])
    commit(disk, "t-0", 10)
    complete(disk, "t-0")
    discard(disk, "t-0")
    for name in ("x.swap", "x.log.swap", "x.cleaned", "5.log.cleaned"):
        assert read_file(disk, f"t-0/{name}") == b"of somebody else"


@pytest.mark.parametrize("seed", range(5))
def test_what_was_committed_counts_whatever_the_power_takes(seed):
    disk = prepared()
    prepare(disk, "t-0", 10, [20, 30])
    commit(disk, "t-0", 10)
    assert state_of(disk.crash(seed)) == expected()
