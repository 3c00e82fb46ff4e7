"""What is in a data directory is described, and a folder with which a broker would not start is recognised.

Method: let a real broker write a folder, then look at it while it runs, after it stopped, after it was killed, and for
other brokers; compare each verdict with that of a real start.
"""

from __future__ import annotations

import os
import shutil

import pytest

from kafkawire import sync
from kafkawire.commands.broker import data_folder
from kafkawire.commands.broker.data_folder import folder_facts, folder_findings
from kafkawire.commands.broker.findings import Kind
from kafkawire.reference_broker.server import BackgroundBroker
from kafkawire.sdk.errors import ConfigurationError


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return the folder of a broker that was stopped."""
    folder = tmp_path_factory.mktemp("broker") / "data"
    with BackgroundBroker(folder, node_id=3, num_partitions=2) as broker, sync.Producer(broker.bootstrap) as producer:
        for topic in ("a", "b"):
            producer.send(topic, b"x").result()
    return folder


@pytest.fixture
def folder(written, tmp_path):
    return shutil.copytree(written, tmp_path / "data")


def findings(path, node_id: int | None = 3, *, is_alone: bool = True) -> list[tuple[Kind, str]]:
    facts = folder_facts(str(path))
    return [(each.kind, each.text) for each in folder_findings(facts, node_id, is_alone=is_alone)]


def errors(path, node_id: int | None = 3, *, is_alone: bool = True) -> list[str]:
    return [text for kind, text in findings(path, node_id, is_alone=is_alone) if kind is Kind.ERROR]


def starts(path, node_id: int) -> bool:
    try:
        BackgroundBroker(path, node_id=node_id).__enter__().stop()
    except (ConfigurationError, OSError):
        return False
    return True


def test_a_folder_of_a_stopped_broker(folder):
    facts = folder_facts(str(folder))
    assert (facts.node_id, facts.topics, facts.partitions, facts.was_clean) == ("3", 2, 4, True)
    assert facts.cluster_id is not None
    assert facts.free_bytes is not None
    assert not errors(folder)
    assert starts(folder, 3)


def test_a_new_folder(tmp_path):
    facts = folder_facts(str(tmp_path / "a" / "b"))
    assert (facts.exists, facts.node_id, facts.partitions) == (False, None, 0)
    assert not errors(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


def test_after_a_crash_the_next_start_recovers(folder):
    (folder / ".kafka_cleanshutdown").unlink()
    assert any(kind is Kind.WARNING and "did not stop cleanly" in text for kind, text in findings(folder))


def test_a_folder_in_use(tmp_path):
    with BackgroundBroker(tmp_path / "data", node_id=3):
        assert errors(tmp_path / "data") == ["the folder is in use by a running broker."]
    assert not errors(tmp_path / "data")


@pytest.mark.parametrize(
    ("node_id", "is_alone", "text"),
    [
        (4, True, "the folder belongs to broker 3, but this one is broker 4."),
        (3, False, "the folder belongs to broker 3, which has no ZooKeeper."),
        (None, False, "the folder belongs to broker 3, which has no ZooKeeper."),
    ],
)
def test_a_folder_of_another_broker(folder, node_id, is_alone, text):
    assert errors(folder, node_id, is_alone=is_alone) == [text]
    if is_alone:
        assert not starts(folder, node_id)


IN_CLUSTER = "version=0\ncluster.id=c\nbroker.id=3\n"


@pytest.mark.parametrize(
    ("node_id", "is_alone", "text"),
    [
        (3, True, "the folder belongs to broker 3 in a cluster with ZooKeeper."),
        (7, False, "the folder belongs to broker 3, but this one is broker 7."),
        (3, False, None),
        (None, False, None),
    ],
)
def test_a_folder_of_a_broker_in_a_cluster(folder, node_id, is_alone, text):
    (folder / "meta.properties").write_text(IN_CLUSTER)
    assert errors(folder, node_id, is_alone=is_alone) == ([] if text is None else [text])


def damaged(folder):
    (folder / "meta.properties").write_text("version=1\n")


def without_owner(folder):
    (folder / "meta.properties").unlink()


@pytest.mark.parametrize(
    ("spoil", "text"), [(damaged, "meta.properties is damaged: "), (without_owner, "4 partitions but no meta.prop")]
)
def test_an_owner_that_cannot_be_read(folder, spoil, text):
    spoil(folder)
    (found,) = errors(folder)
    assert text in found
    assert not starts(folder, 3)


def test_paths_that_are_no_folders(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    assert errors(tmp_path / "file") == ["this is not a folder."]
    assert errors(tmp_path / "broken") == ["this is a broken link."]
    (found,) = errors(tmp_path / "file" / "below")
    assert found == f"the folder cannot be created, because {tmp_path / 'file'} is not a folder."


def test_a_folder_without_rights(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert errors(tmp_path) == ["this user may not read and write the folder."]
    (found,) = errors(tmp_path / "new")
    assert found == f"the folder cannot be created, because this user may not write to {tmp_path}."


def test_a_folder_that_everyone_may_change(folder):
    folder.chmod(0o777)
    assert (Kind.UNSAFE, "every user of this machine may change or delete files in it.") in findings(folder)


@pytest.mark.parametrize(("kind", "is_unsafe"), [("tmpfs", True), ("ext4", False)])
def test_a_file_system_in_memory(folder, tmp_path, monkeypatch, kind, is_unsafe):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"x / ext4 rw 0 0\nx {str(folder.parent).replace(' ', chr(92) + '040')} {kind} rw 0 0\n")
    monkeypatch.setattr(data_folder, "_MOUNTS", mounts)
    assert any("in memory" in text for _, text in findings(folder)) is is_unsafe


def test_a_full_disk(folder):
    facts = folder_facts(str(folder))._replace(free_bytes=5 * 1024 * 1024)
    found = [each.text for each in folder_findings(facts, 3, is_alone=True)]
    assert "only 5 MiB are free, less than one segment may take by default." in found
