"""A held reply leaves once the records are committed, in order, and never after an error."""

from __future__ import annotations

from kafkawire.reference_broker.groups.held_reply import held_reply
from kafkawire.reference_broker.groups.outbox import Outbox
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode


def held():
    outbox, replies, errors = Outbox(), [], []
    reply = held_reply(outbox, replies.append, errors.append)
    result = outbox.take(None)
    assert result.committed is not None
    return reply, result.committed, replies, errors


def test_replies_are_held_until_they_may_leave():
    reply, committed, replies, errors = held()
    reply(1)
    assert replies == []
    committed(None)
    reply(2)
    assert (replies, errors) == ([1, 2], [])


def test_nothing_leaves_after_an_error():
    reply, committed, replies, errors = held()
    reply(1)
    error = BrokerError(ErrorCode.NOT_COORDINATOR)
    committed(error)
    reply(2)
    assert (replies, errors) == ([], [error])
