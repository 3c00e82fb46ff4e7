"""The high watermark notifies each waiting watcher once and in order, whatever other watchers do.

Method: test each guarantee separately; `test_log_state.py` tests how a log moves the high watermark.
"""

import pytest

from kafkawire.reference_broker.replicas.awaited_offset import COMPLETES_ANY_FETCH_BYTES, UNREADABLE_MAX, AwaitedOffset
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode


def test_callbacks_in_the_order_of_offsets():
    mark = AwaitedOffset(10)
    order = []
    for offset in (13, 11, 12, 11, 10, 9):
        mark.when_reached(offset, lambda error, offset=offset: order.append((offset, error)))
    assert order == [(10, None), (9, None)], "these callbacks were called immediately"
    mark.advance(12)
    assert order[2:] == [(11, None), (11, None), (12, None)]
    mark.advance(11)
    assert mark.offset == 12
    mark.advance(20)
    assert order[5:] == [(13, None)]


def test_watchers_hear_of_what_has_become_readable():
    mark = AwaitedOffset(0)
    heard = []
    mark.watch(heard.append)
    for end, size in ((2, 100), (5, 30), (6, 7)):
        mark.appended(end, size)
    mark.advance(5)
    mark.advance(5)
    mark.advance(6)
    assert heard == [130, 7]
    mark.unwatch(heard.append)
    mark.unwatch(heard.append)
    mark.advance(7)
    assert (len(heard), mark.is_watched) == (2, False)


def test_failure_is_told_to_all_and_to_those_who_come():
    mark = AwaitedOffset(5)
    error = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)
    told, heard = [], []
    for offset in (8, 6):
        mark.when_reached(offset, lambda error, offset=offset: told.append((offset, error)))
    mark.watch(heard.append)
    mark.refuse(error)
    assert told == [(6, error), (8, error)]
    assert heard == [2**31]
    mark.when_reached(5, told.append)
    mark.when_reached(6, told.append)
    assert told[2:] == [None, error]


@pytest.mark.defect
def test_callback_that_breaks_takes_nobody_with_it(caplog):
    mark = AwaitedOffset(0)
    told = []

    def broken(argument):
        raise ValueError("broken")

    mark.when_reached(1, broken)
    mark.when_reached(1, told.append)
    mark.watch(broken)
    mark.watch(told.append)
    mark.appended(1, 50)
    mark.advance(1)
    assert told == [None, 50]
    assert caplog.text.count("ValueError: broken") == 2


def test_callback_may_move_it_on():
    mark = AwaitedOffset(0)
    order = []

    def first(error):
        order.append(1)
        mark.advance(3)

    mark.when_reached(1, first)
    mark.when_reached(2, lambda error: order.append(2))
    mark.when_reached(3, lambda error: order.append(3))
    mark.advance(2)
    assert (order, mark.offset) == ([1, 2, 3], 3)


def test_truncation_ends_the_wait_for_what_is_gone():
    mark = AwaitedOffset(0)
    heard, order = [], []
    for end, size in ((2, 100), (5, 30), (6, 7)):
        mark.appended(end, size)
    mark.advance(2)
    for offset in (6, 5, 4):
        mark.when_reached(offset, lambda error, offset=offset: order.append((offset, error and error.code)))
    mark.watch(heard.append)
    mark.truncate(2, 5, BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "truncated"))
    assert order == [(6, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert heard == [COMPLETES_ANY_FETCH_BYTES]
    assert mark.appended_bytes == 130
    mark.advance(5)
    assert order[1:] == [(4, None), (5, None)]
    assert heard[1:] == [30]
    # Below the high watermark.
    mark.truncate(1, 1, BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "truncated"))
    assert mark.offset == 1
    mark.appended(3, 8)
    mark.advance(3)
    assert heard[-1] == 8


def test_waiters_for_records_that_are_gone_fail_although_the_log_begins_later():
    mark = AwaitedOffset(50)
    outcomes, heard = [], []
    mark.appended(51, 100)
    mark.when_reached(51, lambda error: outcomes.append(error and error.code))
    mark.truncate(1000, 1000, BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "truncated"), is_empty=True)
    assert outcomes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert (mark.offset, mark.appended_bytes, mark.readable_bytes) == (1000, 0, 0)
    mark.watch(heard.append)
    mark.appended(1001, 7)
    mark.advance(1001)
    assert heard == [7]


def test_bytes_that_are_not_known_complete_any_fetch():
    mark = AwaitedOffset(3, end_offset=5)
    heard = []
    mark.watch(heard.append)
    mark.appended(6, 10)
    for offset in (4, 6):
        mark.advance(offset)
    mark.appended(7, 20)
    mark.advance(7)
    assert heard == [COMPLETES_ANY_FETCH_BYTES, COMPLETES_ANY_FETCH_BYTES, 20]
    mark.move_back(6)
    mark.advance(7)
    assert heard[3:] == [COMPLETES_ANY_FETCH_BYTES]


def test_sizes_of_more_batches_than_the_limit_are_not_kept():
    mark, end = AwaitedOffset(0), 2 * UNREADABLE_MAX
    heard = []
    mark.watch(heard.append)
    for offset in range(1, UNREADABLE_MAX + 1):
        mark.appended(offset, 10)
    mark.advance(1)
    assert heard == [10], "there were no more callbacks"
    for offset in range(UNREADABLE_MAX + 1, end + 1):
        mark.appended(offset, 10)
    assert len(mark._unreadable) == UNREADABLE_MAX
    for offset in (2, end - 1, end):
        mark.advance(offset)
    assert heard[1:] == [COMPLETES_ANY_FETCH_BYTES] * 3
    assert mark.readable_bytes == mark.appended_bytes == 10 * end
    mark.appended(end + 1, 7)
    mark.advance(end + 1)
    assert heard[4:] == [7]


def test_truncation_that_makes_more_readable_tells_so_first():
    mark = AwaitedOffset(0)
    heard = []
    for end, size in ((2, 100), (5, 30), (6, 7)):
        mark.appended(end, size)
    mark.watch(lambda size_bytes: heard.append((size_bytes, mark.offset)))
    mark.truncate(5, 5, BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "truncated"))
    assert heard == [(130, 5), (COMPLETES_ANY_FETCH_BYTES, 5)]


def test_truncation_keeps_the_order_of_those_who_still_wait():
    mark = AwaitedOffset(0)
    order = []
    for offset in (14, 8, 11, 17, 29, 11, 12, 19):
        mark.when_reached(offset, lambda error, offset=offset: order.append(offset))
    mark.truncate(0, 21, BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "truncated"))
    assert order == [29]
    mark.advance(11)
    assert order[1:] == [8, 11, 11], "offset 12 is reached later"
