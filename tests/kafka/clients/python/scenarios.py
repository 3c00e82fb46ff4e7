"""What the users of clients in Python share."""

from __future__ import annotations

import asyncio
import json
import sys
from inspect import iscoroutine
from typing import Any

__all__ = ["RECORDS", "TIMEOUT_SECONDS", "run", "show"]

RECORDS = 200
TIMEOUT_SECONDS = 50


def show(seen: dict[str, Any]) -> None:
    """Tell what was seen."""
    print(json.dumps(seen), flush=True)


def run(*scenarios: Any) -> None:
    """Run the one of these functions, or coroutine functions, that the command line names."""
    bootstrap, name, *arguments = sys.argv[1:]
    (scenario,) = (each for each in scenarios if each.__name__ == name)
    seen = scenario(bootstrap, *arguments)
    if iscoroutine(seen):
        seen = asyncio.run(asyncio.wait_for(seen, TIMEOUT_SECONDS))
    if seen is not None:
        show(seen)
