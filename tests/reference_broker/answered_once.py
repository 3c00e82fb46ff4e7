"""Check every delayed operation of a broker: none may be completed twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsResponse
from kafkawire.sdk.protocol.schema import Message

__all__ = ["answered_once"]


@contextmanager
def answered_once(failures: list[AssertionError]) -> Iterator[None]:
    """Record any operations that are completed more than once."""
    complete = DelayedOperation.complete

    def completed(self: DelayedOperation, response: Message) -> None:
        # A deletion continues after its client has been told that the request timed out.
        if self.response is not None and not isinstance(response, DeleteTopicsResponse):
            failures.append(AssertionError(f"already answered with {self.response}, now with {response}"))
        complete(self, response)

    with mock.patch.object(DelayedOperation, "complete", completed):
        yield
