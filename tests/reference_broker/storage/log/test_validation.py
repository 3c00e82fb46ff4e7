"""Produced batches are accepted or refused as in Kafka, with Kafka's error codes.

Method: check the table of batches with Kafka's answers, and the results for accepted batches.
"""

import dataclasses

import pytest

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.log.validation import validate
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.record_formats import Compression
from kafkawire.sdk.records import crc32c, walk
from kafkawire.sdk.records.produced import transactional_producer
from tests.reference_broker.storage.produced_batches import NOW_MS, produced
from tests.reference_broker.storage.produced_cases import cases, changed

CONFIG = log_config({})

#: The first Produce version that allows Zstandard.
ZSTANDARD_SINCE = 7


def check(data, config=CONFIG, *, allow_zstandard=True):
    return validate(data, config, NOW_MS, allow_zstandard=allow_zstandard)


def test_answers(subtests: pytest.Subtests):
    for case in cases(NOW_MS):
        with subtests.test(case=case.name):
            if transactional_producer(case.records) is not None:
                assert case.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                continue
            config = log_config(case.config)
            allow_zstandard = case.version >= ZSTANDARD_SINCE
            if case.expected != ErrorCode.NONE:
                with pytest.raises(BrokerError) as caught:
                    check(case.records, config, allow_zstandard=allow_zstandard)
                assert caught.value.code == case.expected
                assert tuple(index for index, _ in getattr(caught.value, "record_errors", ())) == case.bad
                continue
            data, header = check(case.records, config, allow_zstandard=allow_zstandard)
            assert header == parse_header(data)
            assert len(data) == header.size_bytes
            if case.stored is not None:
                (batch,) = walk(data)
                records = tuple((record.offset, record.timestamp_ms) for record in batch.records())
                assert (batch.max_timestamp, batch.timestamp_type, records) == case.stored


@pytest.mark.parametrize("compression", Compression)
def test_a_good_batch_comes_back_as_it_was(compression):
    data = produced(b"a", b"b" * 1000, None, compression=compression)
    before = bytes(data)
    found, header = check(data)
    assert found is data
    assert data == before
    assert header == parse_header(data)


@pytest.mark.parametrize("kind", [bytes, memoryview, lambda data: memoryview(bytes(data))])
@pytest.mark.parametrize("rest", [b"", b"rest"])
def test_what_comes_back_can_be_stamped(kind, rest):
    data = produced(b"a")
    found, _ = check(kind(data + rest))
    found[0] = 1
    assert bytes(found[1:]) == bytes(data[1:])


def test_unknown_attributes_are_dropped_with_a_wrong_timestamp():
    data = produced(b"a")
    found, header = check(changed(bytes(data), attributes=0x7F80, max_timestamp=12))
    assert bytes(found) == bytes(data)
    assert (header.attributes, header.max_timestamp) == (0, NOW_MS)
    assert header.crc == crc32c(found[21:])
    untouched, _ = check(changed(bytes(data), attributes=0x7F80))
    assert bytes(untouched) == changed(bytes(data), attributes=0x7F80)


def test_the_broker_sets_the_time_itself_where_the_topic_says_so():
    data = changed(bytes(produced(b"a")), max_timestamp=12)
    found, header = check(data, log_config({"message.timestamp.type": "LogAppendTime"}))
    assert bytes(found) == data
    assert header.max_timestamp == 12, "the time is written later, by stamping"
    assert not header.is_log_append_time, "the type is written later, too"


def test_a_batch_may_fill_a_segment():
    data = bytes(produced(b"x" * 1000))
    check(data, dataclasses.replace(CONFIG, segment_bytes=len(data)))
    with pytest.raises(BrokerError) as caught:
        check(data, dataclasses.replace(CONFIG, segment_bytes=len(data) - 1))
    assert caught.value.code == ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize("kind", ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("compression", Compression)
def test_a_topic_may_have_a_compression_of_its_own(compression, kind):
    wanted = {"producer": compression, "uncompressed": Compression.NONE}.get(kind)
    wanted = Compression[kind.upper()] if wanted is None else wanted
    given = changed(bytes(produced(b"a", b"b" * 1000, None, compression=compression)), max_timestamp=12)
    data, header = check(given, log_config({"compression.type": kind}))
    (batch,), (before,) = walk(data), walk(given)
    assert (batch.compression, batch.records()) == (wanted, before.records())
    assert header == parse_header(data)
    assert (header.max_timestamp, header.size_bytes) == (NOW_MS + 2, len(data))
    assert (header.producer_id, header.records_count) == (-1, 3)


def test_the_level_of_a_topic():
    values = [b"%d" % (number * 7919 % 10007) for number in range(2000)]
    given = produced(*values)
    sizes = {
        level: len(check(bytes(given), log_config({"compression.type": "gzip", "compression.gzip.level": level}))[0])
        for level in ("1", "9", "-1")
    }
    assert sizes["1"] > sizes["9"]
    assert sizes["-1"] < sizes["1"]


def test_the_size_counts_before_and_after():
    given = produced(b"x" * 1000, compression=Compression.GZIP)
    assert len(given) < 300
    for config, code in (
        ({"compression.type": "uncompressed", "max.message.bytes": "300"}, ErrorCode.MESSAGE_TOO_LARGE),
        ({"compression.type": "gzip", "max.message.bytes": "50"}, ErrorCode.MESSAGE_TOO_LARGE),
    ):
        with pytest.raises(BrokerError) as caught:
            check(bytes(given), log_config(config))
        assert caught.value.code == code
    large = produced(b"x" * 1000)
    with pytest.raises(BrokerError) as caught:
        check(large, log_config({"compression.type": "gzip", "max.message.bytes": "300"}))
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
