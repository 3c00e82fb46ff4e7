"""Whoever fails to take what a log says is logged, and holds up nobody else.

Method: as in `test_log_state.py`.
"""

import pytest

from kafkawire.reference_broker.disk.memory import fail_at
from kafkawire.reference_broker.log.batches import parse_header
from kafkawire.reference_broker.log.config import log_config
from kafkawire.reference_broker.log.partition_log import Appended
from tests.reference_broker.log.produced_batches import NOW_MS, produced
from tests.reference_broker.log.state_bench import ROLLING, Bench


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.defect
def test_who_fails_to_take_an_outcome_is_logged_and_holds_up_nobody(caplog, fails):
    bench, told = Bench(ROLLING), []

    def done(result):
        told.append(isinstance(result, Appended))
        raise ZeroDivisionError

    for _ in range(4):
        bench.append()
    data = produced(b"v")
    for _ in range(2):
        bench.log.append(data, parse_header(data), NOW_MS, done)
    bench.append()
    if fails:
        bench.disk.plan = fail_at(bench.disk.calls + 1)
    bench.work.run()
    assert told == [not fails] * 2
    assert isinstance(bench.results[4], Appended) is not fails
    assert caplog.text.count("a callback of a log failed") == 2
    assert bench.log.high_watermark == (4 if fails else 7)


def test_what_is_appended_is_committed_although_nobody_takes_the_outcome():
    def done(result):
        raise ZeroDivisionError

    bench = Bench(log_config({}))
    data = produced(b"v")

    with pytest.raises(ZeroDivisionError):
        bench.log.append(data, parse_header(data), NOW_MS, done)
    assert bench.log.high_watermark == 1
