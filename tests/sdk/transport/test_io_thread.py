"""The thread runs its loop until it is stopped; stopping it twice or from inside does no harm."""

from __future__ import annotations

import _thread
import asyncio
import selectors
import threading

import pytest

import kafkawire.sync
from kafkawire.errors import LocalProtocolError
from kafkawire.sdk.transport.io_thread import IoThread
from kafkawire.testing import Broker
from tests.sdk.scripted_broker import BROKER, StoringBroker


def test_what_is_scheduled_runs_on_the_thread() -> None:
    thread = IoThread("reader")
    try:
        found = asyncio.run_coroutine_threadsafe(_name(), thread.loop).result(5)
    finally:
        thread.stop()
    assert found == "reader"
    assert thread.loop.is_closed()
    assert "reader" not in [each.name for each in threading.enumerate()]
    thread.stop()


def test_stopping_from_inside_does_not_wait_for_itself() -> None:
    thread = IoThread("inside")
    thread.loop.call_soon_threadsafe(thread.stop)
    for each in threading.enumerate():
        if each.name == "inside":
            each.join(5)
    assert thread.loop.is_closed()


def test_tasks_do_not_outlive_the_thread() -> None:
    thread = IoThread()
    pending = asyncio.run_coroutine_threadsafe(asyncio.Event().wait(), thread.loop)
    thread.stop()
    assert pending.cancelled()


@pytest.mark.parametrize(
    ("place", "name", "module", "remedy"),
    [
        (_thread, "start_new_thread", "gevent.thread", r"gevent\.monkey\.patch_all\(thread=False, select=False\)"),
        (selectors, "DefaultSelector", "gevent.selectors", r"gevent\.monkey\.patch_all.*"),
        (_thread, "start_new_thread", "eventlet.green.thread", r"eventlet\.monkey_patch\(thread=False\)"),
    ],
)
def test_greenlets_in_place_of_threads(
    place: object, name: str, module: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Monkey patching has this effect; clients on their callers' event loops need no threads."""

    def replaced() -> None: ...

    broker = StoringBroker({"t": 1})
    before = threading.active_count()
    replaced.__module__ = module
    monkeypatch.setattr(place, name, replaced)
    refusal = f"^{module.partition('.')[0]} has replaced .*: patch with {remedy}, or use the asyncio clients"
    for kind in (kafkawire.sync.Producer, kafkawire.sync.Consumer, kafkawire.sync.Admin):
        client = kind(str(BROKER), network=broker.network)
        with pytest.raises(LocalProtocolError, match=refusal):
            client.start()
        client.close()
    with pytest.raises(LocalProtocolError, match=refusal):
        Broker(ephemeral=True).start()
    monkeypatch.undo()
    assert threading.active_count() == before


async def _name() -> str:
    return threading.current_thread().name
