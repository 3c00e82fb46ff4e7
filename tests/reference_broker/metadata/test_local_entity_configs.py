"""Quotas and credentials are stored together, in order, and are read again; only their owner may read the file.

Method: change an in-memory directory and a real one, and open it again; use a failing disk and damaged files.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path

import pytest

from kafkawire.reference_broker.metadata.entity_configs import DEFAULT, ConfigEntity, EntityConfigStore
from kafkawire.reference_broker.metadata.local_entity_configs import LocalEntityConfigs
from kafkawire.reference_broker.storage.checkpoints import ENTITY_CONFIGS, DamagedFile
from kafkawire.reference_broker.storage.disk.disk import replace_file
from kafkawire.reference_broker.storage.disk.memory import DiskCall, MemoryDisk
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench

ALICE, BOB, APP = ConfigEntity("alice"), ConfigEntity("bob"), ConfigEntity("alice", "app")


def opened(bench: BrokerBench) -> LocalEntityConfigs:
    return LocalEntityConfigs(bench.core.directory)


def change(store: EntityConfigStore, **configs: Mapping[str, str]) -> Mapping[ConfigEntity, BrokerError]:
    """Replace configurations of users; return the errors."""
    told: list[Mapping[ConfigEntity, BrokerError]] = []
    revisions = {ConfigEntity(user): (lambda before, after=after: after) for user, after in configs.items()}
    store.change(revisions, told.append)
    (errors,) = told
    return errors


def test_what_is_changed_is_read_again() -> None:
    bench = BrokerBench(MemoryDisk())
    store, told = opened(bench), list[ConfigEntity]()
    store.listen(told.append)
    entities = [ALICE, APP, ConfigEntity(DEFAULT), ConfigEntity("a/b=c\n"), ConfigEntity(ip="::1"), BOB]
    errors: list[Mapping[ConfigEntity, BrokerError]] = []
    values = {entity: {"a": f"{entity} =,:", "SCRAM-SHA-256": "salt=a=="} for entity in entities}
    store.change({entity: (lambda before, entity=entity: values[entity]) for entity in entities}, errors.append)
    assert errors == [{}]
    assert told == entities
    assert opened(bench).all() == store.all() == values
    assert isinstance(store, EntityConfigStore)


def test_what_is_removed_is_forgotten() -> None:
    bench = BrokerBench(MemoryDisk())
    store = opened(bench)
    change(store, alice={"a": "1", "b": "2"}, bob={"a": "1"})
    told: list[ConfigEntity] = []
    store.listen(told.append)
    assert change(store, alice={"b": "2"}, bob={}) == {}
    assert told == [ALICE, BOB]
    assert change(store, alice={"b": "2"}, bob={}) == {}
    assert told == [ALICE, BOB], "nothing has changed"
    assert store.all() == opened(bench).all() == {ALICE: {"b": "2"}}
    assert store.of(BOB) == {}


def test_a_refused_change_does_not_affect_others() -> None:
    store = opened(BrokerBench(MemoryDisk()))
    change(store, alice={"a": "1"})
    told: list[Mapping[ConfigEntity, BrokerError]] = []

    def refuse(before: Mapping[str, str]) -> Mapping[str, str]:
        assert before == {"a": "1"}
        raise BrokerError(ErrorCode.INVALID_REQUEST, "no")

    store.change({ALICE: refuse, BOB: lambda before: {"b": "2"}}, told.append)
    assert [(entity, error.detail) for entity, error in told[0].items()] == [(ALICE, "no")]
    assert store.all() == {ALICE: {"a": "1"}, BOB: {"b": "2"}}


def test_a_disk_that_fails() -> None:
    disk = MemoryDisk()
    store = opened(BrokerBench(disk))
    change(store, alice={"a": "1"})

    def plan(call: DiskCall) -> None:
        if call.path.startswith(ENTITY_CONFIGS):
            raise OSError(errno.EIO, "planned")

    disk.plan = plan
    errors = change(store, alice={"a": "2"}, bob={"b": "2"})
    assert {error.code for error in errors.values()} == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert set(errors) == {ALICE, BOB}
    assert store.all() == {ALICE: {"a": "1"}}


def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    store = opened(BrokerBench(tmp_path / "data"))
    for value in ("1", "2"):
        change(store, alice={"a": value})
        assert (tmp_path / "data" / ENTITY_CONFIGS).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"topics/t/a=1\n", "'topics/t' is not the path of a user"),
        (b"a=1\n", "'' is not the path of a user"),
        (b"users/%2/a=1\n", "no two hexadecimal digits"),
        (b"\xff=1\n", "damaged"),
    ],
)
def test_damage(content: bytes, text: str) -> None:
    disk = MemoryDisk()
    bench = BrokerBench(disk)
    replace_file(disk, ENTITY_CONFIGS, content)
    with pytest.raises(DamagedFile, match=text):
        opened(bench)
