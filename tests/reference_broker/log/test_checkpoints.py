"""Kafka's small files are written as Kafka writes them and read back.

Method: exact contents, written by hand from files of Apache Kafka 4.3.
"""

from kafkawire.reference_broker.log.checkpoints import (
    clean_shutdown_text,
    partition_metadata_text,
    properties_text,
    read_epochs,
    read_offsets,
    read_properties,
    write_epochs,
    write_offsets,
)
from kafkawire.sdk.protocol.uuids import ZERO_UUID


def test_offsets(tmp_path):
    path = tmp_path / "recovery-point-offset-checkpoint"
    offsets = {("b", 0): 7, ("a", 10): 3, ("a", 2): 2**40}
    write_offsets(path, offsets)
    assert path.read_text() == f"0\n3\na 2 {2**40}\na 10 3\nb 0 7\n"
    assert read_offsets(path) == offsets
    assert read_offsets(tmp_path / "none") == {}


def test_epochs(tmp_path):
    path = tmp_path / "leader-epoch-checkpoint"
    write_epochs(path, [(0, 0), (3, 120)])
    assert path.read_text() == "0\n2\n0 0\n3 120\n"
    assert read_epochs(path) == [(0, 0), (3, 120)]


def test_properties(tmp_path):
    path = tmp_path / "meta.properties"
    path.write_text("#\n#Sat Nov 21 13:39:46 UTC 2026\nnode.id=1\nversion = 1\n\ncluster.id=a=b\n")
    assert read_properties(path) == {"node.id": "1", "version": "1", "cluster.id": "a=b"}
    assert properties_text({"b": 2, "a": "x"}) == "a=x\nb=2\n"
    assert read_properties(tmp_path / "none") == {}


def test_texts():
    assert partition_metadata_text(ZERO_UUID) == "version: 0\ntopic_id: " + "A" * 22
    assert clean_shutdown_text() == '{"version":0,"brokerEpoch":-1}'
