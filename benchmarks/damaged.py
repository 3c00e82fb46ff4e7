"""Compare the cost of refusing a damaged message, which a hostile peer may send, with that of reading a good one.

The damage is truncation and changed bytes, all near the end, at which most of the work has been done. For each kind of
error that results, the last damage is used. The result is that for the worst damage.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from benchmarks.codec import Case, filled
from benchmarks.goals import Goal
from benchmarks.timing import best_seconds
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.engines.selection import native

__all__ = ["Result", "goals", "measure", "tables"]

#: Lowest allowed ratio of the time for a good message to the time for the worst damage.
_WANTED = 0.2

#: How many bytes at the end are changed, and their replacements: the highest byte, and those on both sides of a
#: varint's continuation limit.
_CHANGED_BYTES = 64
_CHANGES = (0xFF, 0x80, 0x7F)

_GOOD = "good"


class Result(NamedTuple):
    """The seconds for a good message, the seconds for the worst damage, and its error, keyed by engine."""

    case: Case
    good: dict[str, float]
    worst: dict[str, float]
    error: dict[str, str]


def measure(case: Case, seconds: float = 0.2) -> Result:
    """Measure one message, good and damaged, with the fast engines.

    Args:
        case: the message.
        seconds: the time per function.
    """
    result = Result(case, {}, {}, {})
    for engine in ("native", "python") if native is not None else ("python",):
        messages = codec(case.name, case.version, engine)
        data = messages.encode(filled(case))
        functions: dict[str, Callable[[], object]] = {_GOOD: partial(messages.decode, data)}
        functions |= {error: partial(_refuse, messages, content) for error, content in _damaged(messages, data).items()}
        times = best_seconds(functions, seconds)
        result.good[engine] = times.pop(_GOOD)
        result.error[engine] = max(times, key=lambda error: times[error])
        result.worst[engine] = times[result.error[engine]]
    return result


def _damaged(messages: Any, data: bytes) -> dict[str, bytes]:
    """Return damaged encodings, keyed by the error that they cause, without its indexes, offsets and sizes."""
    found = {}
    for content in _damages(data):
        try:
            messages.decode(content)
        except DecodeError as error:
            found[re.sub(r"\[\d+\]| at byte \d+", "", re.sub(r"\d+ (?=bytes|left|elements)", "", str(error)))] = content
    return found


def _damages(data: bytes) -> Iterator[bytes]:
    for place in range(max(0, len(data) - _CHANGED_BYTES), len(data)):
        yield data[:place]
        for change in _CHANGES:
            yield data[:place] + bytes([change]) + data[place + 1 :]


def _refuse(messages: Any, content: bytes) -> None:
    with suppress(DecodeError):
        messages.decode(content)


def goals(results: list[Result]) -> list[Goal]:
    """Return the goal with the measured ratios."""
    ratios = {str(result.case): result.good["python"] / result.worst["python"] for result in results}
    return [Goal("refuse: python, worst damage over a good message", _WANTED, ratios)]


def tables(results: list[Result]) -> str:
    """Return the results as a Markdown table."""
    lines = [
        "| message | engine | good µs | worst damage µs | times a good one | its error |",
        "|---|---|--:|--:|--:|---|",
    ]
    for result in results:
        for engine, good in result.good.items():
            worst = result.worst[engine]
            times = f"{good * 1e6:,.1f} | {worst * 1e6:,.1f} | {worst / good:.1f}"
            lines.append(f"| {result.case} | {engine} | {times} | {result.error[engine]} |")
    return "\n".join(lines)
