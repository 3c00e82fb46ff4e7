"""A delayed operation completes once; a cancelled one releases what it holds.

Method: callbacks that record their arguments.
"""

import pytest

from kafkawire.reference_broker.delayed_operations import DelayedOperation
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatResponse

FIRST, SECOND = HeartbeatResponse(1), HeartbeatResponse(2)


@pytest.mark.parametrize("early", [True, False])
def test_only_the_first_completion_counts(early):
    waiting, heard = DelayedOperation(), []
    if early:
        waiting.complete(FIRST)
    waiting.then(heard.append)
    waiting.complete(FIRST)
    waiting.complete(SECOND)
    assert heard == [FIRST]
    assert waiting.response is FIRST


def test_a_cancelled_operation_never_completes():
    waiting, heard, released = DelayedOperation(), [], []
    waiting.then(heard.append)
    waiting.on_cancel = lambda: released.append(True)
    waiting.cancel()
    waiting.cancel()
    waiting.complete(FIRST)
    assert (heard, released, waiting.response) == ([], [True], None)


def test_a_completed_operation_cannot_be_cancelled():
    waiting, released = DelayedOperation(), []
    waiting.on_cancel = lambda: released.append(True)
    waiting.complete(FIRST)
    waiting.cancel()
    assert not released
