"""A forked child is told that inherited objects are not its own; being registered keeps no object alive."""

from __future__ import annotations

import gc
import os
import weakref

from kafkawire.sdk.transport import fork


class Thing:
    """An object that a child must not use."""

    def __init__(self) -> None:
        self.error: fork.Forked | None = None

    def forked(self, error: fork.Forked) -> None:
        self.error = error


def test_only_the_child_is_told() -> None:
    thing = Thing()
    fork.watch(thing)
    child = os.fork()
    if child == 0:
        os._exit(0 if thing.error is not None and "create one in the child" in str(thing.error) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert thing.error is None


def test_a_child_is_of_another_generation() -> None:
    mine = fork.generation()
    child = os.fork()
    if child == 0:
        os._exit(0 if fork.generation() != mine else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert fork.generation() == mine


def test_what_is_watched_can_be_collected() -> None:
    thing = Thing()
    fork.watch(thing)
    reference = weakref.ref(thing)
    del thing
    gc.collect()
    assert reference() is None
