"""An answer reaches whoever waits, once; a cancelled wait gives back what it held.

Method: callbacks that note what they are given.
"""

import pytest

from kafkawire.reference_broker.waiting import Waiting
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatResponse

FIRST, SECOND = HeartbeatResponse(1), HeartbeatResponse(2)


@pytest.mark.parametrize("early", [True, False])
def test_first_answer_counts(early):
    waiting, heard = Waiting(), []
    if early:
        waiting.complete(FIRST)
    waiting.then(heard.append)
    waiting.complete(FIRST)
    waiting.complete(SECOND)
    assert heard == [FIRST]
    assert waiting.response is FIRST


def test_cancelled_wait_hears_nothing():
    waiting, heard, released = Waiting(), [], []
    waiting.then(heard.append)
    waiting.on_cancel = lambda: released.append(True)
    waiting.cancel()
    waiting.cancel()
    waiting.complete(FIRST)
    assert (heard, released, waiting.response) == ([], [True], None)


def test_answered_wait_is_not_cancelled():
    waiting, released = Waiting(), []
    waiting.on_cancel = lambda: released.append(True)
    waiting.complete(FIRST)
    waiting.cancel()
    assert not released
