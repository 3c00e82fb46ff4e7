"""Ctrl-C ends every blocking call immediately, loses no record wherever it occurs, and lets programs exit normally.

Method: in separate programs, let a thread send the process a real SIGINT as soon as the main thread blocks, and measure
the time until KeyboardInterrupt is caught. In this process, plant an interrupt at each function call within a read or a
`send`, one after another.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from kafkawire import ConsumerBatch, Record, TopicPartition
from kafkawire.errors import NoOffset
from kafkawire.sync import Consumer, Producer
from tests.sdk.scripted_broker import BROKER, StoringBroker
from tests.sdk.sync.interrupting import Interrupting
from tests.thorough import sampled

#: The limit that the documentation promises.
LIMIT_SECONDS = 0.1

#: Each call is measured this many times, and the best time is used, because another program may have used the
#: processor.
ATTEMPTS = 3

PROGRAM = """
import os, signal, sys, threading, time
sys.path.insert(0, {root!r})
from kafkawire import TopicPartition
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sync import Admin, Consumer, Producer
from tests.sdk.scripted_broker import BROKER, StoringBroker
from tests.sdk.sync.interrupting import Interrupting

main = threading.get_ident()
T = TopicPartition("t", 0)
broker = StoringBroker({{"t": 1}})
for silent in {silent!r}:
    broker.responders[ApiKey[silent]] = lambda request: None

def interrupt():
    while sys._current_frames()[main].f_code.co_filename != threading.__file__:
        time.sleep(0.001)
    interrupt.sent = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)

def measured(call):
    for _ in range({attempts}):
        thread = threading.Thread(target=interrupt)
        try:
            thread.start()
            call()
        except KeyboardInterrupt:
            print(time.monotonic() - interrupt.sent)
        thread.join()

with {client}(str(BROKER), network=broker.network, {options}) as client:
    {before}
    measured(lambda: {call})
    left = time.monotonic()
    {end}
print("closed after", time.monotonic() - left)
"""

#: Closing does not wait for the producer's remaining records.
ENDS = {"Producer": "client.close(flush=False)"}

SMALL = "buffer_memory=5000, batch_size=2000"

#: the client, its options, the APIs that get no response, the preparation, and the call
CALLS = [
    ("Producer", "", ["PRODUCE"], "client.send('t', b'x')", "client.flush()"),
    ("Producer", "", ["PRODUCE"], "pass", "client.send('t', b'x').result()"),
    ("Producer", SMALL, ["PRODUCE"], "pass", "client.send_many('t', [b'x' * 50] * 999)"),
    ("Producer", SMALL, ["PRODUCE"], "[client.send('t', b'x' * 900) for _ in range(4)]", "client.drain()"),
    ("Consumer", "", [], "client.assign([T])", "next(iter(client))"),
    ("Consumer", "", [], "client.assign([T])", "next(client.batches())"),
    ("Consumer", "", [], "client.assign([T])", "client.getmany(60_000)"),
    ("Consumer", "", [], "client.assign([T])", "client.getbatches(60_000)"),
    ("Consumer", "", ["LIST_OFFSETS"], "client.assign([T])", "list(client.records(stop_at_end=True))"),
    ("Consumer", "", ["LIST_OFFSETS"], "client.assign([T])", "client.position(T)"),
    ("Consumer", "", ["LIST_OFFSETS"], "pass", "client.end_offsets([T])"),
    ("Consumer", "group_id='g'", ["OFFSET_COMMIT"], "pass", "client.commit({T: 1})"),
    ("Consumer", "group_id='g'", ["OFFSET_FETCH"], "pass", "client.committed(T)"),
    ("Consumer", "group_id='g'", ["JOIN_GROUP"], "client.subscribe('t')", "client.getmany(60_000)"),
    ("Admin", "", ["LIST_OFFSETS"], "pass", "client.list_offsets({T: 1})"),
]  # fmt: skip


def outcome(program: str) -> list[str]:
    """Run a program, which must exit by itself without printing any errors, and return its output."""
    text = program.replace("ROOT", str(Path(__file__).parents[3]))
    done = subprocess.run([sys.executable, "-W", "error", "-c", text], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("client", "options", "silent", "before", "call"),
    sampled(CALLS, 3),
    ids=[f"{each[0]} {each[4]}" for each in CALLS],
)
def test_every_call_that_blocks(client: str, options: str, silent: list[str], before: str, call: str) -> None:
    named = {"client": client, "options": options, "silent": silent, "before": before, "call": call}
    *times, closed = outcome(PROGRAM.format(root="ROOT", attempts=ATTEMPTS, end=ENDS.get(client, "pass"), **named))
    assert len(times) == ATTEMPTS
    assert min(map(float, times)) < LIMIT_SECONDS
    assert float(closed.split()[-1]) < 6, "the block must end within its limit"


@pytest.mark.parametrize("client", ["Producer", "Consumer", "Admin"])
def test_starting_where_nobody_answers(client: str) -> None:
    program = PROGRAM[: PROGRAM.index("with {client}")] + (
        "from kafkawire.sdk.transport.memory import MemoryNetwork\n"
        "class Silent(MemoryNetwork):\n"
        "    async def open(self, *arguments, **named):\n"
        "        import asyncio\n"
        "        await asyncio.Event().wait()\n"
        "measured(lambda: {client}(str(BROKER), network=Silent(), connect_timeout_ms=60_000).start())\n"
    )
    times = outcome(program.format(root="ROOT", client=client, silent=[], attempts=ATTEMPTS))
    assert len(times) == ATTEMPTS
    assert min(map(float, times)) < LIMIT_SECONDS


def test_a_program_that_closes_nothing_ends() -> None:
    program = PROGRAM[: PROGRAM.index("def interrupt")] + (
        "producer = Producer(str(BROKER), network=broker.network)\n"
        "producer.start()\n"
        "producer.send('t', b'x').result()\n"
        "producer.send('t', b'y')\n"
        "consumer = Consumer(str(BROKER), 't', network=broker.network, auto_offset_reset='earliest', group_id='g')\n"
        "consumer.start()\n"
        "print(next(iter(consumer)).value)\n"
        "admin = Admin(str(BROKER), network=broker.network)\n"
        "admin.start()\n"
    )
    assert outcome(program.format(root="ROOT", silent=[])) == ["b'x'"]


# Interrupts at every call within a read or a send.

COUNT = 60
#: More calls than any read makes.
CALLS_MAX = 60
#: More calls than all reads make together.
NEVER = 1_000_000


#: Functions that return the result of a read: records, batches, or records keyed by partition.
READS: dict[str, Callable[[Consumer, list[object]], Any]] = {
    "record": lambda consumer, kept: [next(iter(consumer))],
    "batch": lambda consumer, kept: [next(keep(consumer.batches(), kept))],
    "getmany": lambda consumer, kept: consumer.getmany(60_000, 7),
    "getbatches": lambda consumer, kept: consumer.getbatches(1_000, 2),
}


def keep(batches: Iterator[ConsumerBatch], kept: list[object]) -> Iterator[ConsumerBatch]:
    """Keep a generator alive: its end swallows exceptions, so the end must not be interrupted."""
    kept.append(batches)
    return batches


def flat(found: Any) -> list[tuple[int, int]]:
    """Return the partition and offset of each record that a read returned."""
    if isinstance(found, Record):
        return [(found.partition, found.offset)]
    return [place for each in (found.values() if isinstance(found, dict) else found) for place in flat(each)]


# Python itself ignores exceptions in generators that it drops.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("way", READS)
def test_reads_interrupted_anywhere_lose_nothing(way: str) -> None:
    given: dict[str, Any] = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 1, "retry_backoff_ms": 1}
    total = 0
    for at in range(CALLS_MAX):
        broker = StoringBroker({"t": 2})
        for number in range(6):
            broker.fill("t", *[b"x"] * 10, partition=number % 2)
        places: list[tuple[int, int]] = []
        kept: list[object] = []
        strikes = 0
        with Consumer(str(BROKER), "t", network=broker.network, **given) as consumer:
            assert consumer.position(TopicPartition("t", 0)) == 0
            while len(places) < COUNT:
                found: Any = []
                with Interrupting(at if strikes < 3 else NEVER) as interrupting, suppress(KeyboardInterrupt):
                    found = READS[way](consumer, kept)
                strikes += interrupting.struck
                places += flat(found)
        assert sorted(places) == [(partition, offset) for partition in (0, 1) for offset in range(COUNT // 2)]
        total += strikes
    assert total > 60


def test_sends_interrupted_anywhere_leave_a_producer_that_works() -> None:
    total = 0
    for at in range(CALLS_MAX):
        broker = StoringBroker({"t": 1})
        with Producer(str(BROKER), network=broker.network, linger_ms=0, batch_size=200) as producer:
            producer.send("t", b"first").result()
            deliveries = []
            for _ in range(20):
                with Interrupting(at) as interrupting, suppress(KeyboardInterrupt):
                    deliveries.append(producer.send("t", b"x" * 50))
                if interrupting.struck:
                    total += 1
                    break
            deliveries.append(producer.send("t", b"last"))
            assert [delivery.result(10_000).partition for delivery in deliveries] == [0] * len(deliveries)
            producer.flush()
    assert total > 10


@pytest.mark.parametrize(
    ("takes", "error", "rewinds"),
    [
        (False, KeyboardInterrupt(), 0),
        (True, KeyboardInterrupt(), 1),
        (True, ZeroDivisionError(), 1),
        (True, NoOffset("t-0"), 0),
        (True, None, 0),
    ],
)
def test_only_what_was_on_its_way_is_handed_out_again(takes: bool, error: BaseException | None, rewinds: int) -> None:
    inner: Any = Consumer("broker:9092")._inner
    assert not inner.is_taking
    inner._core = Mock()

    async def read() -> int:
        inner.is_taking = takes
        if error is not None:
            raise error
        return 7

    if error is None:
        assert inner.take(read) == 7
    else:
        with pytest.raises(type(error)):
            inner.take(read)
    assert inner._core.reader.rewind.call_count == rewinds
    assert not inner.is_taking
    inner._core = None  # there is no client to end


def test_only_records_that_a_read_has_found_are_on_their_way() -> None:
    inner: Any = Consumer("broker:9092")._inner
    assert inner._read(Mock(), lambda: 7) == 7
    assert inner.is_taking
    assert inner._read(Mock(), lambda: None) is None
    assert not inner.is_taking
