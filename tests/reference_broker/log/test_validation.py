"""Produced batches are accepted or refused as Kafka does, with its error codes.

Method: good batches, each damaged in one way; header fields are changed with the checksum made anew, so that nothing
but the change is wrong.
"""

import dataclasses
import struct

import pytest

from kafkawire.reference_broker.log.batches import parse_header
from kafkawire.reference_broker.log.config import log_config
from kafkawire.reference_broker.log.validation import InvalidBatch, validate
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables import record_formats as formats
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.record_formats import Compression
from kafkawire.sdk.records import BatchBuilder, crc32c
from tests.reference_broker.log.produced_batches import NOW_MS, produced

CONFIG = log_config({})
WIDTHS = {"b": 1, "h": 2, "i": 4, "q": 8}


def check(data, config=CONFIG, *, allow_zstandard=True):
    return validate(data, config, NOW_MS, allow_zstandard=allow_zstandard)


def changed(at, kind, value, data=None):
    """Return a batch with another number at a place in its header, and the right checksum."""
    data = produced(b"a", b"b") if data is None else data
    struct.pack_into(f">{kind}", data, at, value)
    struct.pack_into(">I", data, formats.BATCH_CRC_AT, crc32c(memoryview(data)[formats.BATCH_CRC_COVERS_FROM :]))
    return data


@pytest.mark.parametrize("compression", Compression)
def test_good_batches(compression):
    data = produced(b"a", b"b" * 1000, None, compression=compression)
    found, header = check(data)
    assert found is data
    assert header == parse_header(data)


@pytest.mark.parametrize("kind", [bytes, memoryview, lambda data: memoryview(bytes(data))])
def test_what_comes_back_can_be_stamped(kind):
    data = produced(b"a")
    found, _ = check(kind(data))
    found[0] = 1
    assert bytes(found[1:]) == bytes(data[1:])


def test_idempotent_batches_pass():
    check(produced(b"a", producer_id=5, producer_epoch=0, base_sequence=0))


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (b"x" * 10, ErrorCode.INVALID_RECORD),
        (bytes(16) + b"\x01" + bytes(30), ErrorCode.INVALID_RECORD),
        (bytes(16) + b"\x02" + bytes(30), ErrorCode.CORRUPT_MESSAGE),
        (produced(b"a")[:-1], ErrorCode.CORRUPT_MESSAGE),
        (produced(b"a") + b"x", ErrorCode.INVALID_RECORD),
        (produced(b"a") * 2, ErrorCode.INVALID_RECORD),
        (produced(b"a")[:-1] + b"x", ErrorCode.CORRUPT_MESSAGE),
        (changed(formats.BATCH_BASE_OFFSET_AT, "q", 1), ErrorCode.INVALID_RECORD),
        (changed(formats.BATCH_RECORDS_COUNT_AT, "i", 0), ErrorCode.INVALID_RECORD),
        (changed(formats.BATCH_RECORDS_COUNT_AT, "i", -1), ErrorCode.INVALID_RECORD),
        (changed(formats.BATCH_RECORDS_COUNT_AT, "i", 3), ErrorCode.INVALID_RECORD),
        (changed(formats.BATCH_LAST_OFFSET_DELTA_AT, "i", 5), ErrorCode.INVALID_RECORD),
        (changed(formats.BATCH_ATTRIBUTES_AT, "h", formats.BATCH_IS_CONTROL_MASK), ErrorCode.INVALID_RECORD),
        (changed(formats.BATCH_ATTRIBUTES_AT, "h", formats.BATCH_TIMESTAMP_TYPE_MASK), ErrorCode.INVALID_RECORD),
        (changed(formats.BATCH_ATTRIBUTES_AT, "h", formats.BATCH_IS_TRANSACTIONAL_MASK), ErrorCode.INVALID_TXN_STATE),
        (changed(formats.BATCH_ATTRIBUTES_AT, "h", 7), ErrorCode.CORRUPT_MESSAGE),
        (changed(formats.BATCH_ATTRIBUTES_AT, "h", Compression.GZIP), ErrorCode.CORRUPT_MESSAGE),
        (changed(formats.BATCH_PRODUCER_ID_AT, "q", 5), ErrorCode.INVALID_RECORD),
        (changed(formats.BATCH_HEADER_BYTES, "b", 2), ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_refused(data, code):
    with pytest.raises(BrokerError) as caught:
        check(data)
    assert caught.value.code == code


def test_records_that_do_not_count_their_offsets():
    builder = BatchBuilder()
    builder.append(NOW_MS, b"k", b"a")
    builder.append_at(2, NOW_MS, b"k", b"b")
    with pytest.raises(BrokerError, match="not consecutive") as caught:
        check(changed(formats.BATCH_LAST_OFFSET_DELTA_AT, "i", 1, bytearray(builder.seal())))
    assert caught.value.code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"max_message_bytes": 200}, ErrorCode.MESSAGE_TOO_LARGE),
        ({"segment_bytes": 200}, ErrorCode.RECORD_LIST_TOO_LARGE),
    ],
)
def test_sizes(limits, code):
    config = dataclasses.replace(CONFIG, **limits)
    check(produced(b"x" * 100), config)
    with pytest.raises(BrokerError) as caught:
        check(produced(b"x" * 200), config)
    assert caught.value.code == code


def test_zstandard_has_to_be_allowed():
    with pytest.raises(BrokerError) as caught:
        check(produced(b"x", compression=Compression.ZSTD), allow_zstandard=False)
    assert caught.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize(("offset_ms", "bad"), [(-501, True), (-500, False), (1000, False), (1001, True)])
def test_timestamps_near_now(offset_ms, bad):
    config = dataclasses.replace(CONFIG, timestamp_before_max_ms=500, timestamp_after_max_ms=1000)
    data = produced(b"a", b"b", b"c", timestamps=(NOW_MS, NOW_MS + offset_ms, NOW_MS))
    if not bad:
        check(data, config)
        return
    with pytest.raises(InvalidBatch) as caught:
        check(data, config)
    assert caught.value.code == ErrorCode.INVALID_TIMESTAMP
    assert [number for number, _ in caught.value.record_errors] == [1]
    check(data, dataclasses.replace(config, is_log_append_time=True))


def test_compacted_topics_need_keys():
    config = dataclasses.replace(CONFIG, is_compacted=True)
    check(produced(b"a"), config)
    with pytest.raises(InvalidBatch) as caught:
        check(produced(b"a", b"b", key=None), config)
    assert (caught.value.code, [number for number, _ in caught.value.record_errors]) == (
        ErrorCode.INVALID_RECORD,
        [0, 1],
    )
