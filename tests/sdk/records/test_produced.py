"""Kafka and every engine accept and refuse the same produced batches, with the same texts.

Method: check the table of Kafka's answers, and good batches with changed header fields or bytes and a recomputed
checksum, on both engines.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.record_formats import BATCH_HEADER, BATCH_HEADER_BYTES, Compression
from kafkawire.sdk.records import BatchBuilder, compress
from kafkawire.sdk.records.produced import (
    RECORD_ERRORS_MAX,
    InvalidBatch,
    ProducedBatch,
    ProduceLimits,
    check_batch,
    transactional_producer,
)
from tests.needs import EXTENSION
from tests.reference_broker.storage.produced_cases import cases, changed
from tests.sdk.records.conftest import batch_of

NOW_MS = 1_700_000_000_000
INT64_MAX = 2**63 - 1
LIMITS = ProduceLimits(2**20, False, False, INT64_MAX, 3_600_000)

#: The first version of Produce that allows Zstandard.
ZSTANDARD_SINCE = 7

needs_both = EXTENSION.mark
both = pytest.mark.parametrize("engine", ["python", pytest.param("native", marks=needs_both)])

int64 = st.integers(-(2**63), INT64_MAX)
near_zero = st.integers(-3, 4)
fields = st.fixed_dictionaries(
    {},
    optional={
        "base_offset": near_zero,
        "attributes": st.integers(0, 127),
        "last_offset_delta": near_zero,
        "base_timestamp": int64,
        "max_timestamp": int64,
        "producer_id": near_zero,
        "base_sequence": near_zero,
        "records_count": near_zero,
    },
)
limits = st.builds(
    ProduceLimits,
    st.sampled_from([70, 2**20]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 1000, INT64_MAX]),
    st.sampled_from([0, 1000, INT64_MAX]),
)


def answer(records: Any, topic: ProduceLimits, engine: str, now_ms: int = NOW_MS) -> Any:
    """Return the checked batch, or the text of the error."""
    try:
        return check_batch(records, topic, now_ms, engine=engine)
    except InvalidBatch as error:
        return error.code, error.detail, error.record_errors
    except BrokerError as error:
        return error.code, error.detail


def limits_of(config: dict[str, str]) -> ProduceLimits:
    """Return the limits of a topic with these configurations."""
    return ProduceLimits(
        int(config.get("max.message.bytes", "1048588")),
        config.get("cleanup.policy") == "compact",
        config.get("message.timestamp.type") == "LogAppendTime",
        int(config.get("message.timestamp.before.max.ms", str(INT64_MAX))),
        int(config.get("message.timestamp.after.max.ms", "3600000")),
    )


@both
def test_answers_of_kafka(subtests: pytest.Subtests, engine: str) -> None:
    """Whether there is a transaction, and how large a segment is, is checked by other code."""
    for case in cases(NOW_MS):
        with subtests.test(case=case.name):
            left_to_others = (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.RECORD_LIST_TOO_LARGE)
            if case.expected in left_to_others:
                continue
            allow_zstandard = case.version >= ZSTANDARD_SINCE
            limits = limits_of(case.config)
            if case.expected == ErrorCode.NONE:
                found = check_batch(case.records, limits, NOW_MS, allow_zstandard=allow_zstandard, engine=engine)
                assert case.stored is None or found.highest_timestamp == case.stored[0]
                continue
            with pytest.raises(BrokerError) as caught:
                check_batch(case.records, limits, NOW_MS, allow_zstandard=allow_zstandard, engine=engine)
            assert caught.value.code == case.expected
            assert tuple(index for index, _ in getattr(caught.value, "record_errors", ())) == case.bad


@needs_both
def test_engines_agree_on_the_table(subtests: pytest.Subtests) -> None:
    for case in cases(NOW_MS):
        with subtests.test(case=case.name):
            for topic in (
                LIMITS,
                ProduceLimits(300, True, False, 5_000_000, 1_000_000),
                LIMITS._replace(is_append_time=True),
            ):
                assert answer(case.records, topic, "native") == answer(case.records, topic, "python")


@needs_both
@given(
    st.lists(st.tuples(st.sampled_from([NOW_MS, NOW_MS + 999, 0, -1]), st.none() | st.binary(max_size=3)), max_size=3),
    st.sampled_from(Compression),
    fields,
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 255)), max_size=2),
    limits,
)
def test_engines_agree(
    rows: list[tuple[int, bytes | None]],
    compression: Compression,
    header: dict[str, int],
    flips: list[tuple[int, int]],
    topic: ProduceLimits,
) -> None:
    builder = BatchBuilder(2**20, compression)
    for timestamp, key in [*rows, (NOW_MS, b"key")]:
        builder.append(timestamp, key, b"value")
    data = bytearray(builder.seal())
    for place, value in flips:
        if place < len(data) - BATCH_HEADER_BYTES:
            data[BATCH_HEADER_BYTES + place] = value
    records = changed(bytes(data), **header)
    assert answer(records, topic, "native") == answer(records, topic, "python")


@pytest.mark.parametrize("compression", Compression)
def test_what_is_said_of_a_good_batch(compression: Compression) -> None:
    data = batch_of([(NOW_MS, b"k", b"a"), (NOW_MS + 7, None, b"b"), (NOW_MS - 1, b"k", None)], compression)
    found = check_batch(data, LIMITS, NOW_MS)
    base_offset, _, *rest = BATCH_HEADER.unpack_from(data)
    assert found == ProducedBatch._make((len(data), base_offset, *rest, NOW_MS + 7))


def test_a_bomb_is_not_decompressed() -> None:
    zeros = bytes(compress(Compression.ZSTD, bytes(101 * 1024 * 1024)))
    data = bytearray(batch_of([(NOW_MS, b"k", b"a")]))
    data[BATCH_HEADER_BYTES:] = zeros
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    with pytest.raises(BrokerError, match="104857600 bytes") as caught:
        check_batch(changed(bytes(data), attributes=Compression.ZSTD), LIMITS, NOW_MS)
    assert caught.value.code == ErrorCode.UNKNOWN_SERVER_ERROR


@both
def test_a_response_names_some_of_many_refused_records(engine: str) -> None:
    data = batch_of([(NOW_MS, None, b"v")] * (RECORD_ERRORS_MAX + 5))
    code, _, errors = answer(data, LIMITS._replace(needs_keys=True), engine)
    assert code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in errors] == list(range(RECORD_ERRORS_MAX))
    late = changed(data, attributes=8, max_timestamp=-1)
    code, _, errors = answer(late, LIMITS, engine)
    assert (code, len(errors)) == (ErrorCode.INVALID_TIMESTAMP, RECORD_ERRORS_MAX)


@both
def test_the_times_that_are_expected(engine: str) -> None:
    topic = LIMITS._replace(before_max_ms=10, after_max_ms=20)
    (code, _, ((index, problem),)) = answer(batch_of([(NOW_MS + 21, None, b"v")]), topic, engine)
    assert (code, index) == (ErrorCode.INVALID_TIMESTAMP, 0)
    assert problem.endswith(f"expected {NOW_MS - 10} to {NOW_MS + 20}")
    for time in (NOW_MS + 20, NOW_MS - 10, -1):
        assert answer(batch_of([(time, None, b"v")]), topic, engine).highest_timestamp == time


@both
def test_other_buffers(engine: str) -> None:
    data = batch_of()
    expected = answer(data, LIMITS, engine)
    assert expected[0] == ErrorCode.INVALID_TIMESTAMP or expected.size_bytes == len(data)
    assert answer(bytearray(data), LIMITS, engine) == answer(memoryview(data), LIMITS, engine) == expected
    with pytest.raises(TypeError):
        answer(memoryview(data)[::2], LIMITS, engine)


def test_whether_a_batch_belongs_to_a_transaction() -> None:
    data = batch_of()
    assert transactional_producer(None) is None
    assert transactional_producer(data) is None
    assert transactional_producer(changed(data, attributes=16)) == (-1, -1)
    assert transactional_producer(changed(data, attributes=16, producer_id=2**40, producer_epoch=9)) == (2**40, 9)
    assert transactional_producer(changed(data, attributes=16, magic=1)) is None
    assert transactional_producer(changed(data, attributes=16)[:60]) is None
