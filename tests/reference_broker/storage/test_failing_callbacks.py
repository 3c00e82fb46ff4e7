"""If a callback of a log fails, this is logged, and other callbacks are not held up.

Method: proceed as in `test_log_state.py`.
"""

import dataclasses

import pytest

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.memory import fail_at
from kafkawire.reference_broker.storage.log.partition_log import Appended
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.storage.produced_batches import NOW_MS, produced, records_in
from tests.reference_broker.storage.state_bench import ROLLING, Bench

TWO_BATCHES = dataclasses.replace(ROLLING, segment_bytes=2 * len(produced(b"v")))

GONE = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone")


def broken(result=None):
    raise ZeroDivisionError


def append_then(bench, value, done):
    data = produced(value)
    bench.log.append(data, parse_header(data), NOW_MS, done)


def values(bench):
    return [value for _, value in records_in(bench.log)]


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.defect
def test_who_fails_to_take_an_outcome_is_logged_and_holds_up_nobody(caplog, fails):
    bench, told = Bench(ROLLING), []

    def done(result):
        told.append(isinstance(result, Appended))
        raise ZeroDivisionError

    for _ in range(4):
        bench.append()
    for _ in range(2):
        append_then(bench, b"v", done)
    bench.append()
    if fails:
        bench.disk.plan = fail_at(bench.disk.calls + 1)
    bench.work.run()
    assert told == [not fails] * 2
    assert isinstance(bench.results[4], Appended) is not fails
    assert caplog.text.count("a callback of a log failed") == 2
    assert bench.log.high_watermark == (4 if fails else 7)


def test_what_is_appended_is_committed_although_nobody_takes_the_outcome():
    bench = Bench(log_config({}))
    with pytest.raises(ZeroDivisionError):  # the caller has to answer the request
        append_then(bench, b"a", broken)
    assert (bench.log.high_watermark, values(bench)) == (1, [b"a"])


@pytest.mark.defect
def test_those_behind_the_one_who_fails_are_told_after_a_roll(caplog):
    bench, told = Bench(TWO_BATCHES), []
    for _ in range(2):
        bench.append()
    append_then(bench, b"x", broken)
    for value in (b"y", b"z"):
        append_then(bench, value, told.append)
    bench.work.run()
    assert [result.base_offset for result in told] == [3, 4]
    assert (bench.log.high_watermark, values(bench)[2:]) == (5, [b"x", b"y", b"z"])
    assert caplog.text.count("a callback of a log failed") == 1


@pytest.mark.defect
def test_those_behind_the_one_who_fails_are_told_when_the_log_ends(caplog):
    bench, told = Bench(TWO_BATCHES), []
    log = bench.log
    for _ in range(2):
        bench.append()
    append_then(bench, b"x", broken)
    append_then(bench, b"y", told.append)
    for callback in (broken, lambda: told.append("rolled")):
        log.roll(callback)
    for callback in (broken, lambda: told.append("stored")):
        log.store([log.segments.first], callback)
    log.end(GONE)
    assert told == [GONE, "rolled", "stored"]
    for callback in (broken, lambda: told.append("quiet")):
        log.when_quiet(callback)
    bench.work.run()
    assert told[3:] == ["quiet"]
    assert caplog.text.count("a callback of a log failed") == 4
