"""Code shared by the programs that use Python clients."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from enum import Enum
from inspect import iscoroutine
from typing import Any

__all__ = [
    "LONG_TIMEOUT_SECONDS",
    "RECORDS",
    "RECORDS_OF_A_LINE",
    "TIMEOUT_SECONDS",
    "asked",
    "plain",
    "run",
    "show",
    "told",
]

RECORDS = 200
TIMEOUT_SECONDS = 50

#: The number of records to store for each line of standard input, and the time limit of a scenario with failing
#: brokers.
RECORDS_OF_A_LINE = 500
LONG_TIMEOUT_SECONDS = 280


def show(seen: dict[str, Any]) -> None:
    """Print the observations."""
    print(json.dumps(seen), flush=True)


def told(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return the result of a call, or the error that it raises."""
    try:
        return plain(call(*arguments, **options))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


async def asked(call: Awaitable[Any]) -> Any:
    """Return the result of an awaitable, or the error that it raises."""
    try:
        return plain(await call)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def plain(value: Any) -> Any:
    """Return a client's objects as JSON types."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    if isinstance(value, int | float | str | None):
        return value
    fields = {} if isinstance(value, Enum) else getattr(value, "__dict__", {})
    return plain(fields) if fields else str(value)


def run(*scenarios: Any) -> None:
    """Run the function or coroutine function named on the command line."""
    bootstrap, name, *arguments = sys.argv[1:]
    (scenario,) = (each for each in scenarios if each.__name__ == name)
    seen = scenario(bootstrap, *arguments)
    if iscoroutine(seen):
        limit = LONG_TIMEOUT_SECONDS if name in ("stream", "follow") else TIMEOUT_SECONDS
        seen = asyncio.run(asyncio.wait_for(seen, limit))
    if seen is not None:
        show(seen)
