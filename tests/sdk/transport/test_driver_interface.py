"""Code that makes decisions does no I/O: the state machines import nothing that waits, connects, sleeps or is random.

Method: read the imports of every machine's module from its source.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import kafkawire
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport import driver_interface

#: Modules that make decisions. Add new state machines to this list.
MACHINES = (
    "sdk/routing/call.py",
    "sdk/routing/coordinators.py",
    "sdk/routing/links.py",
    "sdk/routing/metadata.py",
    "sdk/routing/metadata_refresh.py",
    "sdk/routing/retry.py",
    "sdk/routing/router.py",
)

#: Standard modules that wait, connect, read a clock or draw random numbers.
IMPURE = {"asyncio", "os", "random", "secrets", "selectors", "socket", "ssl", "subprocess", "threading", "time"}

#: Modules of this project that do these things.
IMPURE_OURS = {"kafkawire.sdk.clock", "kafkawire.sdk.transport.connection", "kafkawire.sdk.transport.driver"}


@pytest.mark.parametrize("path", MACHINES)
def test_a_machine_imports_nothing_that_does_io(path: str) -> None:
    source = (Path(kafkawire.__file__).parent / path).read_text("utf-8")
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    assert not found & IMPURE_OURS
    assert not {name.partition(".")[0] for name in found} & IMPURE


def test_the_router_of_the_client_is_one_that_a_driver_drives() -> None:
    wanted = {name for name in vars(driver_interface.Router) if not name.startswith("_")}
    assert wanted == {"answered", "close", "closed", "due_ms", "failed", "opened", "poll"}
    assert wanted <= set(dir(Router))
