"""A signal handler or a finalizer may interrupt a blocking client anywhere, and use the same client without hanging.

Method: run the handler at successive instructions that the main thread executes during a call, in this package and in
the libraries below it, while the I/O thread runs, as it does during a real handler. The handler's calls must return,
and records must be stored once and in order. To save time, some instructions are skipped; `step=1` visits all of them.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from kafkawire import TopicPartition
from kafkawire.errors import Closed
from kafkawire.sync import Admin, Consumer, Producer
from tests.sdk.instructions import interrupted_at
from tests.sdk.scripted_broker import BROKER, StoringBroker

#: Longer than any handler takes unless it waits for its own thread, and therefore forever.
LIMIT_MS = 5_000

T = TopicPartition("t", 0)

#: The distance between two interrupted instructions in the tests of closing. Each interruption needs a new client, so
#: not every instruction is interrupted.
STEP = 17

#: Every call in these tests has fewer instructions.
INSTRUCTIONS_MAX = 20_000


def everywhere(
    make: Callable[[int], Callable[[], object]], handler: Callable[[int], None], *, step: int, at_least: int = 100
) -> int:
    """Repeat a call, interrupt it at a later instruction each time, and return the number of its instructions.

    Args:
        make: a function that prepares and returns the call.
        handler: the function that interrupts the call.
        step: the distance between two interrupted instructions.
        at_least: the minimum number of instructions in a call if tracing works.
    """
    for place in range(0, INSTRUCTIONS_MAX, step):
        if not interrupted_at([place], make(place), partial(handler, place)):
            assert place >= at_least
            return place
    raise AssertionError("the call does not end")


@pytest.fixture
def broker() -> StoringBroker:
    return StoringBroker({"t": 1, "m": 1, **{f"new-{number}": 1 for number in range(2_000)}})


#: The states in which a `send` finds its partition's batch, with the value to send and the minimum number of
#: instructions. The extension adds a record to an open batch without executing any instructions except the caller's.
SITUATIONS = {
    "open": (b"x", 8),
    "to grow": (b"x" * 600, 100),
    "full": (b"x" * 900, 100),
}


@pytest.mark.parametrize(("value", "at_least"), SITUATIONS.values(), ids=SITUATIONS)
def test_a_handler_that_sends_and_flushes_anywhere_in_a_send(
    broker: StoringBroker, value: bytes, at_least: int
) -> None:
    with Producer(str(BROKER), network=broker.network, batch_size=1_000, linger_ms=60_000) as producer:
        producer.send("t", b"known")
        producer.flush()

        def make(place: int) -> Callable[[], object]:
            producer.send("t", b"%d before" % place + b"x" * 200)
            return lambda: producer.send("t", b"%d sent" % place + value)

        def handler(place: int) -> None:
            delivery = producer.send("t", b"%d inner" % place)
            producer.flush()
            assert delivery.done

        count = everywhere(make, handler, step=3, at_least=at_least)
        producer.flush()
    stored = [(record or b"").rstrip(b"x") for record in broker.values("t")]
    expected = [b"%d %s" % (place, what) for place in range(0, count, 3) for what in (b"before", b"inner", b"sent")]
    interrupted = [each for each in stored[1:] if int(each.split()[0]) < count]
    assert sorted(interrupted) == sorted(expected), "each record must be stored once"
    for what in (b"before", b"inner", b"sent"):
        mine = [each for each in interrupted if each.endswith(what)]
        assert mine == [b"%d %s" % (place, what) for place in range(0, count, 3)], "the records must be stored in order"


def test_a_handler_anywhere_in_the_first_send_to_a_topic(broker: StoringBroker) -> None:
    with Producer(str(BROKER), network=broker.network) as producer:

        def handler(place: int) -> None:
            producer.send("m", b"inner").result(LIMIT_MS)
            producer.flush()

        count = everywhere(lambda place: lambda: producer.send(f"new-{place}", b"v"), handler, step=7)
        producer.flush()
    assert all(broker.values(f"new-{place}") == [b"v"] for place in range(0, count, 7))


CALLS: dict[str, Callable[[Producer], object]] = {
    "send": lambda producer: producer.send("t", b"sent"),
    "flush": lambda producer: producer.flush(),
    "result": lambda producer: producer.send("t", b"sent").result(LIMIT_MS),
    "drain": lambda producer: producer.drain(),
    "close": lambda producer: producer.close(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_handler_that_closes_anywhere_in_a_call(broker: StoringBroker, call: Callable[[Producer], object]) -> None:
    def make(place: int) -> Callable[[], object]:
        nonlocal producer
        producer = Producer(str(BROKER), network=broker.network)
        producer.start()
        producer.send("t", b"%d" % place)

        def ended() -> None:
            with suppress(Closed):
                call(producer)

        return ended

    producer = Producer(str(BROKER))
    count = everywhere(make, lambda place: producer.close(timeout_ms=LIMIT_MS), step=STEP)
    producer.close()
    stored = {int(value or b"") for value in broker.values("t") if (value or b"").isdigit()}
    assert stored.issuperset(range(0, count, STEP)), "the handler must flush records sent earlier"


READS: dict[str, Callable[[Consumer], object]] = {
    "getmany": lambda consumer: consumer.getmany(LIMIT_MS),
    "position": lambda consumer: consumer.position(T),
    "commit": lambda consumer: consumer.commit({T: 1}),
    "seek": lambda consumer: consumer.seek(T, 0),
    "close": lambda consumer: consumer.close(),
}


@pytest.mark.parametrize("call", READS.values(), ids=READS)
def test_a_handler_that_closes_a_consumer_anywhere_in_a_call(
    broker: StoringBroker, call: Callable[[Consumer], object]
) -> None:
    with Producer(str(BROKER), network=broker.network) as producer:
        producer.send("t", b"v")
    took: list[float] = []

    def make(place: int) -> Callable[[], object]:
        nonlocal consumer
        consumer = Consumer(str(BROKER), group_id="g", auto_offset_reset="earliest", network=broker.network)
        consumer.start()
        consumer.assign([T])

        def ended() -> None:
            with suppress(Closed):
                call(consumer)

        return ended

    def handler(place: int) -> None:
        began = time.monotonic()
        consumer.close(timeout_ms=LIMIT_MS)
        took.append(time.monotonic() - began)

    consumer = Consumer(str(BROKER))
    everywhere(make, handler, step=STEP)
    consumer.close()
    assert max(took) < LIMIT_MS / 1000, "no handler may wait until its time limit"


def test_a_handler_that_closes_an_admin_anywhere_in_a_call(broker: StoringBroker) -> None:
    def make(place: int) -> Callable[[], object]:
        nonlocal admin
        admin = Admin(str(BROKER), network=broker.network)
        admin.start()

        def ended() -> None:
            with suppress(Closed):
                admin.list_offsets({T: 1})

        return ended

    admin = Admin(str(BROKER))
    everywhere(make, lambda place: admin.close(), step=STEP)
    admin.close()


def test_a_finalizer_that_sends_wherever_garbage_is_collected(broker: StoringBroker) -> None:
    class Last:
        def __init__(self, number: int) -> None:
            self.itself, self.number = self, number

        def __del__(self) -> None:
            producer.send("t", b"%d" % self.number, headers=[("by", b"finalizer")])

    thresholds = gc.get_threshold()
    with Producer(str(BROKER), network=broker.network, batch_size=300) as producer:
        try:
            gc.set_threshold(1)
            for number in range(300):
                Last(number)
                producer.send("t", b"x" * 50)
                if number % 50 == 0:
                    producer.flush()
        finally:
            gc.set_threshold(*thresholds)
        gc.collect()
        producer.flush()
    stored = [value or b"" for value in broker.values("t")]
    assert sorted(int(value) for value in stored if value[:1] != b"x") == list(range(300))
    assert stored.count(b"x" * 50) == 300


def test_close_keeps_its_limit_whatever_is_held(broker: StoringBroker) -> None:
    """The effect is that of a handler that interrupts this thread in a log handler whose lock the I/O thread needs."""
    held = threading.Lock()

    def delivered(delivery: object) -> None:
        with held:
            pass

    producer = Producer(str(BROKER), network=broker.network)
    producer.start()
    with held:
        producer.send("t", b"v", on_delivery=delivered)
        producer.send("t", b"v")
        began = time.monotonic()
        producer.close(timeout_ms=100)
        assert time.monotonic() - began < 10
