"""The public records module creates a batch and reads it back."""

from __future__ import annotations

from kafkawire.records import BatchBuilder, Compression, decode_record, stamp, walk


def test_a_batch_there_and_back() -> None:
    builder = BatchBuilder(compression=Compression.LZ4)
    builder.append(1000, b"key", b"value", (("name", b"content"),))
    data = bytearray(builder.seal())
    stamp(data, 7, 1)
    (batch,) = walk(data)
    (record,) = batch.records("topic", 3)
    assert (record.offset, record.key, record.value, record.headers) == (7, b"key", b"value", (("name", b"content"),))
    assert (record.topic, record.partition) == ("topic", 3)


def test_a_record_of_an_internal_topic() -> None:
    found = decode_record("__transaction_state", bytes.fromhex("0000 000374786e"), None)
    assert found.to_json()["key"] == {"transactionalId": "txn"}
