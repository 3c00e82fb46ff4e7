"""A connection counts the bytes that it holds, waits for memory if needed, and is not blamed for the broker's delays.

Method: proceed as in `test_client_wire.py`.
"""

from __future__ import annotations

import asyncio

import pytest

from kafkawire.reference_broker.network.request_frames import RECEIVE_BUFFER_BYTES
from kafkawire.sdk.protocol.frames import frame
from kafkawire.sdk.protocol.schema import Buffer
from tests.reference_broker.network.wire_bench import LIMIT_BYTES, Bench, on_a_loop


def test_what_the_client_has_read_of_a_response_counts_as_progress():
    async def test() -> None:
        bench = Bench()
        wire = await bench.connect()
        wire.write([bytes(600_000), bytes(600_000)])
        before, sent_before = wire.unsent_bytes, wire.progress[1]
        assert before == bench.budget.unsent_bytes > 1_000_000
        await bench.read(500_000)
        await bench.until(lambda: wire.unsent_bytes <= before - 200_000)
        assert wire.progress[1] - sent_before == before - wire.unsent_bytes
        assert wire.is_congested
        bench.end()

    on_a_loop(test())


def test_large_requests_wait_for_memory_and_small_ones_do_not():
    size_bytes = LIMIT_BYTES - RECEIVE_BUFFER_BYTES

    async def test() -> None:
        first = Bench()
        await first.connect()
        second, third = Bench(first.shared), Bench(first.shared)
        await second.connect()
        await third.connect()
        request = frame(bytes(2 * size_bytes))
        await first.send(request[:size_bytes])
        await second.send(request[: 2 * RECEIVE_BUFFER_BYTES])
        await second.until(lambda: first.budget.is_full)
        sending = asyncio.create_task(second.send(request[2 * RECEIVE_BUFFER_BYTES :]))
        await third.send(frame(b"small"))
        await third.until(lambda: third.session.frames)
        await first.send(request[size_bytes:])
        await first.until(lambda: first.session.frames)
        assert not sending.done()
        assert not second.session.frames
        assert first.budget.received_bytes < LIMIT_BYTES, "the memory of handled requests is released"
        await sending
        await second.until(lambda: second.session.frames)
        assert first.budget.received_bytes == 0
        for bench in (first, second, third):
            bench.end()

    on_a_loop(test())


def test_request_that_lacks_more_is_not_read_while_another_goes_on():
    async def test() -> None:
        first = Bench()
        await first.connect()
        second = Bench(first.shared)
        wire = await second.connect()
        shorter, longer = frame(bytes(LIMIT_BYTES + 1)), frame(bytes(2 * LIMIT_BYTES))
        await first.send(shorter[:-1])
        await first.until(lambda: first.budget.received_bytes >= LIMIT_BYTES)
        sending = asyncio.create_task(second.send(longer))
        await second.until(lambda: wire.progress[0])
        read_bytes = wire.progress[0]
        for _ in range(100):
            await asyncio.sleep(0)
        assert wire.progress[0] == read_bytes < len(longer)
        await first.send(shorter[-1:])
        await sending
        await second.until(lambda: second.session.frames)
        for bench in (first, second):
            bench.end()

    on_a_loop(test())


def test_what_the_session_holds_counts_until_it_is_answered():
    async def test() -> None:
        bench = Bench()
        wire = await bench.connect()
        bench.session.held_bytes, bench.session.is_waiting = 700, True
        await bench.send(frame(b"a"))
        await bench.until(lambda: bench.session.frames)
        assert bench.budget.received_bytes == 700
        assert not wire.may_be_idle, "the client waits for the broker"
        bench.session.held_bytes, bench.session.is_waiting = 0, False
        bench.session.on_answer()
        assert bench.budget.received_bytes == 0
        assert wire.may_be_idle
        bench.end()

    on_a_loop(test())


@pytest.mark.parametrize("is_first", [True, False])
def test_paused_connection_is_not_slow(is_first):
    """This applies to the connection that may exceed the limit, and to one that waits behind it."""
    request = frame(bytes(100_000))

    async def test() -> None:
        bench = Bench()
        await bench.connect()
        bench.budget.received(LIMIT_BYTES)  # another client
        other = Bench(bench.shared)
        await other.connect()
        if not is_first:
            await other.send(request[:90_000])
            await other.until(lambda: bench.budget.received_bytes == LIMIT_BYTES + 90_000 - 4)
        before = bench.budget.received_bytes
        await bench.send(request[:2_000])
        await bench.until(lambda: bench.budget.received_bytes > before)
        bench.session.on_pause(True)
        for _ in range(2):
            bench.timers.fire(10**9)
            await asyncio.sleep(0)
        assert not bench.session.reasons
        assert len(other.session.reasons) == (not is_first)
        bench.budget.received(-LIMIT_BYTES)
        bench.session.on_pause(False)
        await bench.send(request[2_000:])
        await bench.until(lambda: bench.session.frames)
        bench.end()
        other.end()

    on_a_loop(test())


def test_connection_whose_session_pauses_in_the_middle_of_a_request_is_not_slow():
    async def test() -> None:
        bench = Bench()
        await bench.connect()
        bench.budget.received(LIMIT_BYTES)  # another client
        receive = bench.session.receive_frames

        def queue(frames: list[Buffer]) -> None:
            receive(frames)
            bench.session.on_pause(True)

        bench.session.receive_frames = queue  # type: ignore[method-assign]  # a different stand-in
        request = frame(bytes(100_000))
        await bench.send(frame(b"small") + request[:1_000])
        await bench.until(lambda: bench.session.frames)
        bench.timers.fire(10**9)
        assert not bench.session.reasons
        bench.budget.received(-LIMIT_BYTES)
        bench.session.receive_frames = receive  # type: ignore[method-assign]  # as before
        bench.session.on_pause(False)
        await bench.send(request[1_000:])
        await bench.until(lambda: len(bench.session.frames) == 2)
        bench.end()

    on_a_loop(test())


@pytest.mark.parametrize("end", ["client", "budget"])
def test_gone_connection_holds_nothing(end, monkeypatch):
    monkeypatch.setattr("kafkawire.reference_broker.network.client_wire.CLOSE_LINGER_SECONDS", 3_600)

    async def test() -> None:
        bench = Bench()
        wire = await bench.connect()
        await bench.send(frame(bytes(200_000))[:150_000])
        await bench.until(lambda: bench.budget.received_bytes > 100_000)
        wire.write([bytes(100_000)])
        assert bench.budget.unsent_bytes
        if end == "client":
            bench.far.close()
        else:
            wire.give_up("too slow")
            assert bench.session.reasons == ["too slow"]
        await bench.until(lambda: bench.gone)
        assert (bench.budget.received_bytes, bench.budget.unsent_bytes) == (0, 0)
        bench.end()

    on_a_loop(test())
