"""Responses to requests that change resource configurations: each resource may appear once, and has its own result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from kafkawire.reference_broker.requests.delayed_operations import Parts
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["AlteredResource", "alter_each"]


class AlteredResource(Protocol):
    """A resource in a request."""

    resource_type: int
    resource_name: str


class _Result(Protocol):
    error_code: int
    error_message: str | None


M = TypeVar("M", bound=Message)
A = TypeVar("A", bound=AlteredResource)
R = TypeVar("R", bound=_Result)


def alter_each(
    resources: Sequence[A],
    parts: Parts[M],
    result_of: Callable[[int, str], R],
    alter: Callable[[A, Callable[[BrokerError | None], None]], None],
) -> Work[list[R]]:
    """Change each resource, and return the results, which are complete once all `parts` have arrived.

    Args:
        resources: the resources, in the order of the results; any that are named more than once are refused.
        parts: expects a part for each resource.
        result_of: returns the result for a changed resource, given its type and name.
        alter: begins to change a resource, and calls back with None or an error; it may instead raise a BrokerError.
    """
    named: Counter[tuple[int, str]] = Counter()
    for resource in resources:
        named[resource.resource_type, resource.resource_name] += 1
        yield
    results = []
    for resource in resources:
        kind, name = resource.resource_type, resource.resource_name
        result = result_of(kind, name)
        results.append(result)
        parts.expect()
        done = partial(_finish, result, parts.arrived)
        try:
            if named[kind, name] > 1:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            alter(resource, done)
        except BrokerError as error:
            done(error)
        yield
    return results


def _finish(result: _Result, arrived: Callable[[], None], error: BrokerError | None) -> None:
    if error is not None:
        result.error_code, result.error_message = error.code, error.detail
    arrived()
