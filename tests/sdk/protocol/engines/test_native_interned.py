"""The extension shares equal values among messages, and creates views of records only when they are used.

Method: check the identity and reference counts of decoded values, decode more values than the tables have slots, and
check which buffers are locked and released. `test_codec.py` compares the values with those of the other engines.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

import pytest

from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.engines import selection
from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.protocol.messages.headers import ResponseHeader
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.primitives import APART_BYTES
from tests.needs import NATIVE_ENGINE

NATIVE_ENGINE.require()
native: Any = selection.native

METADATA = codec(MetadataResponse, 12, "native")
FETCH = codec(FetchResponse, 12, "native")


def fetched(partition: FetchResponse.PartitionData) -> bytes:
    """Return the encoding of a response with one partition."""
    topic = FetchResponse.FetchableTopicResponse(topic="orders", partitions=[partition])
    return FETCH.encode(FetchResponse(responses=[topic]))


DATA = fetched(FetchResponse.PartitionData(partition_index=3, records=b"abc"))


def test_equal_values_are_one_object() -> None:
    """A name, replica list or neighbouring offset that is repeated many times is one shared object."""
    replicas = MetadataResponse.MetadataResponsePartition(replica_nodes=(5001, 5002), isr_nodes=(5001, 5002))
    topic = MetadataResponse.MetadataResponseTopic(name="orders-of-today", partitions=[replicas])
    data = METADATA.encode(MetadataResponse(topics=[topic]))
    first, second = (METADATA.decode(data)[0].topics[0] for _ in range(2))
    assert first.name is second.name
    assert first.partitions[0].isr_nodes is first.partitions[0].replica_nodes is second.partitions[0].isr_nodes
    assert first.partitions[0].isr_nodes == (5001, 5002)
    partition = FetchResponse.PartitionData(high_watermark=2**40, last_stable_offset=2**40, log_start_offset=2**41)
    read = FETCH.decode(fetched(partition))[0].responses[0].partitions[0]
    assert read.high_watermark is read.last_stable_offset
    assert (read.high_watermark, read.log_start_offset) == (2**40, 2**41)


def test_values_that_share_a_place_stay_apart() -> None:
    """Names and arrays that outnumber the tables' slots, with lengths around the limits, are read twice in turn."""
    names = [f"{number:x}{'-' * (number % 70)}" for number in range(3000)] + ["ä" * 20, "Ã¤" * 20, "a\0", ""]
    topics = [
        MetadataResponse.MetadataResponseTopic(
            name=name,
            partitions=[MetadataResponse.MetadataResponsePartition(replica_nodes=tuple(range(at, at + at % 11)))],
        )
        for at, name in enumerate(names)
    ]
    message = MetadataResponse(topics=topics)
    data = METADATA.encode(message)
    for _ in range(2):
        read = METADATA.decode(data)[0]
        assert read == message
        assert METADATA.encode(read) == data


def test_shared_values_are_not_lost_or_leaked() -> None:
    data = METADATA.encode(MetadataResponse(topics=[MetadataResponse.MetadataResponseTopic(name="counted")]))
    name = METADATA.decode(data)[0].topics[0].name
    before = sys.getrefcount(name)
    for _ in range(100):
        METADATA.decode(data)
    assert sys.getrefcount(name) == before


def test_records_become_a_view_when_somebody_looks() -> None:
    buffer = bytearray(DATA)
    partition = FETCH.decode(buffer)[0].responses[0].partitions[0]
    with pytest.raises(BufferError):  # records hold the buffer until they are read
        buffer.append(0)
    view = partition.records
    assert type(view) is memoryview
    assert partition.records is view
    assert view == b"abc"
    assert not view.readonly
    partition.records = b"other"
    assert partition.records == b"other"
    view.release()
    buffer.append(0)
    del partition.records
    with pytest.raises(AttributeError):
        partition.records  # noqa: B018  # the access itself is tested


def test_records_that_nobody_looked_at_are_written_as_they_are() -> None:
    large = bytes(range(256)) * (APART_BYTES // 256)
    for records in (b"", b"abc", large):
        data = fetched(FetchResponse.PartitionData(records=records))
        unseen = FETCH.decode(data)[0]
        assert FETCH.encode(unseen) == data
        parts = FETCH.encode_parts(unseen)
        assert b"".join(parts) == data
        assert len(parts) == (3 if records is large else 1)
        assert unseen == FETCH.decode(data)[0]
        assert pickle.loads(pickle.dumps(FETCH.decode(data)[0])) == unseen


def test_the_face_of_records_belongs_to_its_class() -> None:
    face = vars(FetchResponse.PartitionData)["records"]
    assert FetchResponse.PartitionData.records is face
    with pytest.raises(TypeError):
        face.__get__(ResponseHeader(), ResponseHeader)
    for member in (None, vars(type("Other", (), {"__slots__": ("records",)}))["records"]):
        with pytest.raises(TypeError, match="is not a slot of a message class"):
            type(face)(member)
