"""Answered writes survive, whatever a crash does to the journal; damage is refused, and a torn tail is cut off.

Method: run a workload on an in-memory disk, with a power cut or a failure at each disk call in turn; cut and alter
journals byte by byte.
"""

from __future__ import annotations

import errno
import random
from contextlib import nullcontext
from itertools import pairwise

import pytest

from kafkawire.reference_broker.cluster import registry_journal
from kafkawire.reference_broker.cluster.registry_journal import REGISTRY_JOURNAL, RegistryJournal
from kafkawire.reference_broker.cluster.znode_tree import StoredNode, ZnodeTree
from kafkawire.reference_broker.storage.checkpoints import DamagedFile
from kafkawire.reference_broker.storage.disk.disk import read_file
from kafkawire.reference_broker.storage.disk.memory import DiskCall, MemoryDisk, PowerCut, cut_power_at, fail_at
from kafkawire.sdk.registry.acls import CREATOR_ACL, READ_ACL
from kafkawire.sdk.registry.registry import (
    Create,
    CreateMode,
    Delete,
    Operation,
    Outcome,
    RegistryCode,
    RegistryError,
    SetAcl,
    SetData,
    Transaction,
)
from tests.reference_broker.cluster.embedded_bench import EmbeddedBench
from tests.thorough import IS_SAMPLE

#: Every byte is tried; a sample tries every third.
STRIDE = 3 if IS_SAMPLE else 1

#: Operations to perform one after another; each changes the tree.
WORKLOAD: list[Operation] = [
    Create("/a", b"1"),
    Create("/a/b", bytes(range(256))),
    SetData("/a", None),
    Transaction((Create("/e", mode=CreateMode.EPHEMERAL), SetData("/e", b"\xf0RJ\x01"), Delete("/a/b"))),
    SetAcl("/a", READ_ACL + CREATOR_ACL),
    Create("/a/s-", b"\x00" * 600, CreateMode.PERSISTENT_SEQUENTIAL),
    SetData("/a", b"2"),
    Create("/c\u00e9", b"3"),
]


def contents(tree: ZnodeTree) -> dict[str, StoredNode]:
    return {node.path: node for node in tree.nodes()}


def persistent(tree: ZnodeTree) -> dict[str, tuple[bytes | None, int, int]]:
    """Return the nodes that outlive a process: data, version, and the transaction that wrote the data."""
    return {node.path: (node.data, node.version, node.mzxid) for node in tree.nodes() if not node.ephemeral_owner}


def work(disk: MemoryDisk, answered: list[dict[str, tuple[bytes | None, int, int]]]) -> list[Outcome]:
    """Perform the workload, and record the tree after each operation that is answered."""
    bench = EmbeddedBench(disk)
    one = bench.registry([("digest", "alice:secret")])
    outcomes = []
    for operation in WORKLOAD:
        outcome = bench.owner.ask(one, operation)
        outcomes.append(outcome)
        if not isinstance(outcome, RegistryError):
            answered.append(persistent(bench.embedded.tree))
    return outcomes


def states() -> list[dict[str, tuple[bytes | None, int, int]]]:
    """Return the trees before and after each operation."""
    found = [persistent(ZnodeTree())]
    work(MemoryDisk(), found)
    return found


def load(disk: MemoryDisk) -> ZnodeTree:
    return RegistryJournal(disk).load()


def calls_of_the_workload() -> int:
    disk = MemoryDisk()
    work(disk, [])
    return disk.calls


#: One size leads to a snapshot every few operations, the other to a single snapshot at the start.
SIZES = pytest.mark.parametrize("compaction_bytes_min", [600, 1024 * 1024])


@SIZES
def test_the_power_is_cut_at_each_call(compaction_bytes_min: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_journal, "COMPACTION_BYTES_MIN", compaction_bytes_min)
    every = states()
    for number in range(1, calls_of_the_workload() + 1):
        disk = MemoryDisk()
        disk.plan = cut_power_at(number)
        answered = [every[0]]
        with pytest.raises(PowerCut):
            work(disk, answered)
        for seed in (None, 1, 2, 3):
            left = disk.crash(seed)
            found = persistent(load(left))
            assert found in every[len(answered) - 1 : len(answered) + 1], (number, seed)
            # The loaded journal works, and returns the same tree again.
            bench = EmbeddedBench(left)
            assert not isinstance(bench.owner.ask(bench.registry(), Create("/after")), RegistryError)
            again = persistent(load(left.crash(seed)))
            assert set(again) == {*found, "/after"}


class DoubtfulDisk(MemoryDisk):
    """A disk that, when told to, renames a file but reports that the renaming failed."""

    is_in_doubt = False

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        if self.is_in_doubt:
            raise OSError(errno.ENOSPC, "no room")


def test_a_snapshot_that_may_be_there_is_written_again() -> None:
    """Otherwise, the next operations could be appended to a file that has been unlinked."""
    disk = DoubtfulDisk()
    journal = RegistryJournal(disk)
    tree = journal.load()
    journal.replace(journal.compacted_content(tree))
    assert not journal.is_compaction_due
    disk.is_in_doubt = True
    with pytest.raises(OSError, match="no room"):
        journal.replace(journal.compacted_content(tree))
    assert journal.is_compaction_due


@SIZES
def test_each_call_fails(compaction_bytes_min: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_journal, "COMPACTION_BYTES_MIN", compaction_bytes_min)
    every = states()
    # The first call opens the journal; if it fails, so does startup.
    for number in range(2, calls_of_the_workload() + 1):
        disk = MemoryDisk()
        disk.plan = fail_at(number)
        answered = [every[0]]
        outcomes = work(disk, answered)
        failed = [outcome for outcome in outcomes if isinstance(outcome, RegistryError)]
        assert failed
        assert {outcome.code for outcome in failed} == {RegistryCode.STORAGE_FAILED}
        assert outcomes[-len(failed) :] == failed, "an operation succeeded after a failure"
        for seed in (None, 1, 2):
            found = persistent(load(disk.crash(seed)))
            assert found in every[len(answered) - 1 : len(answered) + 1], (number, seed)


@SIZES
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_each_call_is_short_of_room_or_descriptors(
    code: int, times: int, compaction_bytes_min: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each operation eventually takes effect exactly once, and no answered write is lost in the meantime."""
    monkeypatch.setattr(registry_journal, "COMPACTION_BYTES_MIN", compaction_bytes_min)
    every = states()
    for number in range(2, calls_of_the_workload() + 1):
        disk = MemoryDisk()

        def plan(call: DiskCall, begin: int = number) -> None:
            if begin <= call.number < begin + times:
                raise OSError(code, "planned", call.path)

        disk.plan = plan
        bench = EmbeddedBench(disk)
        one = bench.registry([("digest", "alice:secret")])
        waits = 0
        for answered, operation in enumerate(WORKLOAD):
            ended = bench.owner.submit(one, operation)
            bench.owner.run_all()
            while not ended:
                waits += 1
                assert waits <= times
                assert persistent(load(disk.crash(waits))) in every[answered : answered + 2], (number, answered)
                bench.embedded.write_again()
                bench.owner.run_all()
            assert not isinstance(ended[0][0], RegistryError), (number, ended)
            assert persistent(bench.embedded.tree) == every[answered + 1]
        for seed in (1, 2):
            assert persistent(load(disk.crash(seed))) == every[-1], number


def test_a_journal_that_cannot_be_opened_can_be_loaded_again() -> None:
    disk = MemoryDisk()
    bench = EmbeddedBench(disk)
    bench.owner.ask(bench.registry(), Create("/a"))

    def refuse(call: DiskCall) -> None:
        raise OSError(errno.EMFILE, "planned", call.path)

    journal = RegistryJournal(disk)
    disk.plan = refuse
    with pytest.raises(OSError, match="planned"):
        journal.load()
    disk.plan = None
    assert contents(journal.load()) == contents(bench.embedded.tree)


def test_a_journal_grows_on_without_room_for_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_journal, "COMPACTION_BYTES_MIN", 2_000)
    disk = MemoryDisk()
    bench = EmbeddedBench(disk)
    one, owner = bench.registry(), bench.owner

    refused = []

    def plan(call: DiskCall) -> None:
        if call.name == "create":
            refused.append(call.path)
            raise OSError(errno.EMFILE, "planned", call.path)

    owner.ask(one, Create("/a"))
    disk.plan = plan
    for number in range(100):
        assert not isinstance(owner.ask(one, SetData("/a", bytes(number))), RegistryError)
        assert bench.embedded.shortage is None
    # The compaction is retried once the file has grown by the same amount again.
    assert len(refused) == 3
    assert disk.size_of(REGISTRY_JOURNAL) > 8_000
    assert contents(load(disk.crash(1))) == contents(bench.embedded.tree)


@SIZES
@pytest.mark.parametrize("is_killed", [False, True])
def test_what_is_read_after_a_restart_is_durable(
    is_killed: bool, compaction_bytes_min: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This includes data that the previous process had not synced or failed to sync, if the machine kept running."""
    monkeypatch.setattr(registry_journal, "COMPACTION_BYTES_MIN", compaction_bytes_min)
    for number in range(2, calls_of_the_workload() + 1):
        disk = MemoryDisk()
        disk.plan = cut_power_at(number) if is_killed else fail_at(number)
        with pytest.raises(PowerCut) if is_killed else nullcontext():
            work(disk, [])
        disk.plan = None
        bench = EmbeddedBench(disk)
        told = persistent(bench.embedded.tree)
        for seed in (1, 2, 3):
            assert persistent(load(disk.crash(seed))) == told, (number, seed)
        assert not isinstance(bench.owner.ask(bench.registry(), Create("/after")), RegistryError)
        for seed in (1, 2, 3):
            assert set(persistent(load(disk.crash(seed)))) == {*told, "/after"}, (number, seed)


@SIZES
def test_a_tree_comes_back_as_it_was(compaction_bytes_min: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_journal, "COMPACTION_BYTES_MIN", compaction_bytes_min)
    disk = MemoryDisk()
    bench = EmbeddedBench(disk)
    one = bench.registry([("digest", "alice:secret")])
    for operation in WORKLOAD:
        bench.owner.ask(one, operation)
        loaded = load(disk.crash(1))
        assert contents(loaded) == contents(bench.embedded.tree)
        assert loaded.zxid == bench.embedded.tree.zxid


def test_a_journal_does_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_journal, "COMPACTION_BYTES_MIN", 2_000)
    monkeypatch.setattr(registry_journal, "_NODES_PER_FRAME", 2)
    disk = MemoryDisk()
    bench = EmbeddedBench(disk)
    one, owner = bench.registry(), bench.owner
    owner.ask_all(one, *[Create(f"/{number}", b"x" * 20) for number in range(5)])
    sizes = []
    for number in range(200):
        owner.ask(one, SetData(f"/{number % 5}", str(number).encode()))
        sizes.append(disk.size_of(REGISTRY_JOURNAL))
    assert max(sizes) < 6_000
    assert sum(after < before for before, after in pairwise(sizes)) > 5
    assert contents(load(disk.crash(1))) == contents(bench.embedded.tree)


# Damage.


def journal_of_writes() -> tuple[bytes, list[int], list[dict[str, tuple[bytes | None, int, int]]]]:
    """Return a journal, and the position and the tree after each write."""
    disk, ends, trees = MemoryDisk(), list[int](), list[dict[str, tuple[bytes | None, int, int]]]()
    bench = EmbeddedBench(disk)
    one = bench.registry([("digest", "alice:secret")])
    for operation in WORKLOAD:
        bench.owner.ask(one, operation)
        ends.append(disk.size_of(REGISTRY_JOURNAL))
        trees.append(persistent(bench.embedded.tree))
    content = read_file(disk, REGISTRY_JOURNAL)
    assert content is not None
    return content, ends, trees


def disk_with(content: bytes) -> MemoryDisk:
    disk = MemoryDisk()
    disk.open(REGISTRY_JOURNAL, create=True).append(content)
    return disk


def test_a_journal_that_is_cut_anywhere(caplog: pytest.LogCaptureFixture) -> None:
    content, ends, trees = journal_of_writes()
    for length in range(ends[0], len(content), STRIDE):
        disk = disk_with(content[:length])
        caplog.clear()
        index = max(at for at, end in enumerate(ends) if end <= length)
        assert persistent(load(disk)) == trees[index]
        assert ("cutting off the last" in caplog.text) == (length > ends[index])
        caplog.clear()
        assert persistent(load(disk.crash(1))) == trees[index]
        assert not caplog.text
    for length in range(1, ends[0], STRIDE):
        with pytest.raises(DamagedFile, match="does not start with a complete snapshot"):
            load(disk_with(content[:length]))


def test_a_byte_that_has_changed() -> None:
    content, ends, trees = journal_of_writes()
    chance = random.Random(1)
    for position in range(0, len(content), STRIDE):
        damaged = bytearray(content)
        damaged[position] ^= chance.randrange(1, 256)
        disk = disk_with(bytes(damaged))
        if position < ends[-2]:
            with pytest.raises(DamagedFile, match=r"memory:registry\.journal is damaged"):
                load(disk)
            assert disk.size_of(REGISTRY_JOURNAL) == len(content), "an unreadable journal was modified"
        else:
            assert persistent(load(disk)) == trees[-2]


def test_a_frame_that_is_missing_or_twice() -> None:
    content, ends, _ = journal_of_writes()
    missing = content[: ends[1]] + content[ends[2] :]
    twice = content[: ends[2]] + content[ends[1] :]
    for damaged in (missing, twice):
        with pytest.raises(DamagedFile):
            load(disk_with(damaged))


def test_zeros_after_the_end_are_cut_off() -> None:
    content, _, trees = journal_of_writes()
    disk = disk_with(content + bytes(4096))
    assert persistent(load(disk)) == trees[-1]
    left = read_file(disk, REGISTRY_JOURNAL)
    assert left is not None
    assert not left.endswith(bytes(8))


def test_an_empty_file_is_refused() -> None:
    with pytest.raises(DamagedFile):
        load(disk_with(b""))
    assert persistent(load(MemoryDisk())) == persistent(ZnodeTree())


def test_a_journal_is_loaded_before_it_is_written() -> None:
    with pytest.raises(RuntimeError, match="loaded before"):
        RegistryJournal(MemoryDisk()).append(b"")
