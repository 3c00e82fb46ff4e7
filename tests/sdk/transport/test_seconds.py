"""Times are in milliseconds everywhere, except that asyncio receives them in seconds.

Method: record the delays passed to asyncio, without waiting for them.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import Closed
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.sasl.authenticator import Authenticator, CredentialsUnavailable
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.transport import sockets
from kafkawire.sdk.transport.connection import BrokerConnection, ConnectionSettings
from kafkawire.sdk.transport.driver import Driver
from kafkawire.sdk.transport.gate import CREDENTIALS_PAUSE_MS
from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.sockets import ATTEMPT_DELAY_MS, Endpoint, connect_one
from kafkawire.sdk.transport.timing import sleep_ms
from tests.sdk.scripted_broker import BROKER, ScriptedBroker
from tests.sdk.transport.responses import send_request
from tests.sdk.transport.sasl_broker import SaslBroker, plain, until
from tests.sdk.transport.scripted_router import scripted_driver


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """Return the arguments of all calls to `asyncio.timeout`, which works as usual."""
    found: list[float | None] = []
    usual = asyncio.timeout

    def timeout(seconds: float | None) -> asyncio.Timeout:
        found.append(seconds)
        return usual(seconds)

    monkeypatch.setattr(asyncio, "timeout", timeout)
    return found


def timers(monkeypatch: pytest.MonkeyPatch, name: str) -> list[float]:
    """Return the delays of timers that call a method with this name; the running loop sets the timers as usual."""
    loop, found = asyncio.get_running_loop(), []
    usual = loop.call_later

    def call_later(delay: float, callback: Callable[..., Any], *arguments: Any, **named: Any) -> asyncio.TimerHandle:
        if getattr(callback, "__name__", "") == name:
            found.append(delay)
        return usual(delay, callback, *arguments, **named)

    monkeypatch.setattr(loop, "call_later", call_later)
    return found


def test_connecting_and_responses(monkeypatch: pytest.MonkeyPatch, limits: list[float | None]) -> None:
    async def run() -> None:
        broker = ScriptedBroker()
        broker.responders[ApiKey.FIND_COORDINATOR] = lambda request: None
        settings = ConnectionSettings(connect_timeout_ms=1_500, request_timeout_ms=90_000)
        connection = await BrokerConnection.open(broker.network, BROKER, settings)
        assert limits == [1.5, 90.0], "for connecting, and for the versions"
        delays = timers(monkeypatch, "_check_deadlines")
        answers = [
            send_request(connection, FindCoordinatorRequest(), FindCoordinatorResponse, timeout_ms=timeout_ms)
            for timeout_ms in (None, 120_000, 2_500)
        ]
        assert delays == [90.0, 2.5], "the later one must be checked when the earlier one is due"
        connection.close()
        await asyncio.gather(*answers, return_exceptions=True)

    asyncio.run(run())


def test_turns_of_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        delays = timers(monkeypatch, "_timer_fired")
        router, driver = scripted_driver(ScriptedBroker())
        assert isinstance(driver, Driver)
        router.due = monotonic_ms() + 100_000
        driver.start()
        await asyncio.sleep(0)
        (delay,) = delays
        assert 10 < delay <= 100, "the delay is in seconds, less the time that has passed"
        await driver.end(Closed("the test is over"))

    asyncio.run(run())


def test_promises(monkeypatch: pytest.MonkeyPatch, limits: list[float | None]) -> None:
    promise: Promise[None] = Promise()

    async def run() -> None:
        for timeout_ms in (-5, 0, 10):
            assert not await promise.within(timeout_ms)

    asyncio.run(run())
    assert limits == [0, 0, 0.01]
    blocked: list[float | None] = []
    monkeypatch.setattr(Promise, "_block", lambda self, seconds: blocked.append(seconds) or False)
    for timeout_ms in (2_500, -5, None):
        with pytest.raises(StopIteration):
            promise.within(timeout_ms).send(None)
    assert blocked == [2.5, 0, None]


def test_sleeping_and_the_race_of_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float | None] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    usual = asyncio.wait

    async def wait(work: Any, *, timeout: float | None, return_when: str) -> Any:
        slept.append(timeout)
        return await usual(work, return_when=return_when)

    async def refuse(endpoint: Endpoint, keeps_alive: bool) -> socket.socket:
        raise OSError("refused")

    async def run() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(asyncio, "sleep", sleep)
            await sleep_ms(2_500)
        monkeypatch.setattr(asyncio, "wait", wait)
        monkeypatch.setattr(sockets, "_connect", refuse)
        with pytest.raises(OSError, match="refused"):
            await connect_one([Endpoint(socket.AF_INET, (host, 9092)) for host in ("192.0.2.1", "192.0.2.2")])

    asyncio.run(run())
    assert slept == [2.5, ATTEMPT_DELAY_MS / 1_000, None]


def test_logins(monkeypatch: pytest.MonkeyPatch, limits: list[float | None]) -> None:
    """In a session of 100 s, the next login comes after 85 to 95 s."""
    paused: list[float] = []
    usual = asyncio.sleep

    async def sleep(seconds: float) -> None:
        if seconds:
            paused.append(seconds)
        await usual(0)

    failures = [CredentialsUnavailable("not now")]

    async def login(host: str) -> Authenticator:
        if broker.logins and failures:
            raise failures.pop()
        return await plain(host)

    broker = SaslBroker()

    async def run() -> None:
        broker.lifetimes_ms = [100_000]
        delays = timers(monkeypatch, "_begin_again")
        connection = await broker.open(login, timeout_ms=1_500)
        at_ms = connection._protocol.reauthenticate_at_ms
        (delay,) = delays
        assert 0 <= delay - (at_ms - monotonic_ms()) / 1_000 < 10, "the timer was set a little earlier"
        assert limits == [1.5, 2.0, 2.0, 2.0], "for connecting, and for each response"
        limits.clear()
        monkeypatch.setattr(asyncio, "sleep", sleep)
        connection._gate._begin_again()
        await until(lambda: broker.logins == 2)
        assert [limit for limit in limits if limit is not None] == [1.5] * 4, "for credentials twice, and both steps"
        assert paused == [CREDENTIALS_PAUSE_MS / 1_000]
        connection.close()
        await usual(0)

    asyncio.run(run())
