"""A data directory remembers who it belongs to and which topics it has, and cleans up after crashes.

Method: directories made, closed, tampered with and opened again.
"""

from itertools import count

import pytest

from kafkawire.reference_broker.log.batches import parse_header
from kafkawire.reference_broker.log.log_directory import LogDirectory
from kafkawire.sdk.errors import ConfigurationError
from tests.reference_broker.log.produced_batches import NOW_MS, produced


@pytest.fixture
def reopen(tmp_path):
    numbers = count(1)

    def reopen(node_id=1, **defaults):
        return LogDirectory(tmp_path, node_id, lambda: next(numbers).to_bytes(16, "big"), defaults)

    return reopen


def append(log, *values):
    data = produced(*values)
    log.append(data, parse_header(data), NOW_MS)


def test_identity(reopen, tmp_path):
    cluster_id = reopen().cluster_id
    assert reopen().cluster_id == cluster_id
    assert f"cluster.id={cluster_id}\n" in (tmp_path / "meta.properties").read_text()
    with pytest.raises(ConfigurationError, match="belongs to node 1"):
        reopen(2)


def test_topics_come_back(reopen, tmp_path):
    directory = reopen()
    made = directory.create("a.b-c_d", 2, {"segment.bytes": "2000000"})
    append(made.logs[1], b"x")
    directory.close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    again = reopen()
    assert again.was_clean
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    topic = again.topics["a.b-c_d"]
    assert (topic.topic_id, topic.configs) == (made.topic_id, {"segment.bytes": "2000000"})
    assert again.topics_by_id[made.topic_id] is topic
    assert [log.next_offset for log in topic.logs] == [0, 1]
    assert topic.logs[0].config.segment_bytes == 2_000_000
    assert "topic_id: " in (tmp_path / "a.b-c_d-1" / "partition.metadata").read_text()


def test_defaults_of_the_broker(reopen):
    directory = reopen(**{"segment.bytes": "3000000"})
    assert directory.create("t", 1, {}).logs[0].config.segment_bytes == 3_000_000


def test_without_closing_it_was_not_clean(reopen):
    append(reopen().create("t", 1, {}).logs[0], b"x")
    again = reopen()
    assert not again.was_clean
    assert again.topics["t"].logs[0].next_offset == 1


def test_crash_between_topic_file_and_folders(reopen, tmp_path):
    reopen().create("t", 3, {})
    for path in (tmp_path / "t-2").iterdir():
        path.unlink()
    (tmp_path / "t-2").rmdir()
    assert len(reopen().topics["t"].logs) == 3


def test_delete(reopen, tmp_path):
    directory = reopen()
    topic = directory.create("t", 2, {})
    piece = None
    append(topic.logs[0], b"x")
    piece = topic.logs[0].read(0, 1000, at_least_one=True).records
    directory.delete(topic)
    assert not directory.topics
    assert not directory.topics_by_id
    assert not list(tmp_path.glob("t-*"))
    assert b"x" in piece.read(), "a fetch that is being sent goes on"
    assert not reopen().topics


def test_crash_while_deleting(reopen, tmp_path):
    reopen()
    half = tmp_path / "AAAA.0-delete"
    half.mkdir()
    (half / "00000000000000000000.log").write_bytes(b"x")
    reopen()
    assert not half.exists()


def test_log_and_logs(reopen):
    directory = reopen()
    directory.create("t", 2, {})
    assert directory.log("t", 1) is directory.topics["t"].logs[1]
    assert [directory.log(*place) for place in (("t", 2), ("t", -1), ("none", 0))] == [None] * 3
    assert [(name, number) for name, number, _ in directory.logs()] == [("t", 0), ("t", 1)]
