"""A log handler that raises does not end a client; a thread that holds one of `logging`'s locks may wait for a client.

Method: use handlers that keep their lines, raise, or send to Kafka. The locks are held by the test, or by `logging`
itself (`dictConfig`, `logging.shutdown`).
"""

from __future__ import annotations

import logging
import logging.config
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafkawire
from kafkawire import KafkaWireError, sync
from kafkawire.sdk.transport import log_lines
from kafkawire.sdk.transport.log_lines import LOGGERS, begin_io_thread, end_io_thread, guard_loggers
from kafkawire.testing import Broker
from tests.ports import free_port

CLIENT = logging.getLogger("kafkawire.client")


class Kept(logging.Handler):
    """A handler that keeps its lines, and signals each new one."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.threads: list[str] = []
        self.arrived = threading.Semaphore(0)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self.threads.append(threading.current_thread().name)
        self.arrived.release()


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler = Kept()
    guard_loggers()
    CLIENT.addHandler(handler)
    yield handler
    CLIENT.removeHandler(handler)


def in_io_thread(work: object, *arguments: object) -> None:
    """Call a function on a thread that is treated as an I/O thread, and wait until the thread has ended."""

    def run() -> None:
        begin_io_thread()
        try:
            work(*arguments)  # type: ignore[operator]  # a callable
        finally:
            end_io_thread()

    thread = threading.Thread(target=run, name="io")
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "the thread must not wait for a lock"


def test_every_logger_of_the_clients_and_of_the_broker_is_guarded() -> None:
    """kazoo's threads use kazoo's logger, Spark's workers Spark's, and a cluster's supervisor the cluster's."""
    folder = Path(kafkawire.__file__).parent
    sources = (
        path.read_text("utf-8") for room in ("sdk", "reference_broker") for path in (folder / room).rglob("*.py")
    )
    named = {name for source in sources for name in re.findall(r'getLogger\("([^"]+)"\)', source)}
    assert named - {"kafkawire.spark", "kafkawire.registry.kazoo"} == set(LOGGERS)


def test_a_line_whose_handler_is_free_is_written_at_once(kept: Kept) -> None:
    in_io_thread(CLIENT.warning, "%s lost", "node 1")
    assert kept.lines == ["node 1 lost"]
    assert kept.threads == ["io"]


def test_a_name_forges_no_line(kept: Kept) -> None:
    CLIENT.error("group %s of %d: %s, %s", "a\nERROR b\x1b[2J\ud800", 5, ValueError("é\rc"), ["d\n"])
    assert kept.lines == [r"group a\nERROR b\x1b[2J\ud800 of 5: é\rc, ['d\n']"]
    CLIENT.error("%(one)s", {"one": 1})
    assert kept.lines[1:] == ["1"]


def test_an_error_without_a_text(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(CLIENT, "propagate", False)

    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("planted")

    CLIENT.error("failed: %s", Mute())
    CLIENT.error("the next line")
    assert kept.lines == ["the next line"]
    assert "ValueError: planted" in capsys.readouterr().err


def test_a_line_whose_handler_is_locked_comes_later_and_the_next_ones_do_not_wait(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.acquire()
    try:
        in_io_thread(CLIENT.warning, "first")
        monkeypatch.setattr(log_lines, "PATIENCE_SECONDS", 3_600)
        in_io_thread(CLIENT.warning, "second")  # queued directly behind the first, or the test would take an hour
        assert kept.lines == []
    finally:
        kept.release()
    assert kept.arrived.acquire(timeout=30)
    assert kept.arrived.acquire(timeout=30)
    assert kept.lines == ["first", "second"]


def test_as_many_lines_as_the_limit_may_wait(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "LATE_LINES_MAX", 2)

    def write() -> None:
        for number in range(10):
            CLIENT.warning("line %d", number)

    kept.acquire()
    in_io_thread(write)
    kept.release()
    assert kept.arrived.acquire(timeout=30)
    assert kept.arrived.acquire(timeout=30)
    in_io_thread(CLIENT.warning, "last")
    assert kept.arrived.acquire(timeout=30)
    assert kept.lines == ["line 0", "line 1", "last"]


def test_levels_without_a_lock(kept: Kept) -> None:
    """The level is computed each time, because the cache in `logging` is protected by the whole module's lock."""

    def hold(held: threading.Event, done: threading.Event) -> None:
        with logging._lock:  # type: ignore[attr-defined]  # what `dictConfig` holds
            held.set()
            done.wait(30)

    CLIENT.setLevel(logging.NOTSET)  # `logging` forgets which levels are enabled
    held, done = threading.Event(), threading.Event()
    holder = threading.Thread(target=hold, args=(held, done))
    holder.start()
    assert held.wait(30)
    try:
        in_io_thread(CLIENT.warning, "seen")
        in_io_thread(CLIENT.debug, "not seen")
    finally:
        done.set()
        holder.join(30)
    assert kept.lines == ["seen"]


@pytest.mark.parametrize("switch", ["disabled", "level", "manager"])
def test_what_switches_a_line_off(kept: Kept, monkeypatch: pytest.MonkeyPatch, switch: str) -> None:
    if switch == "disabled":
        monkeypatch.setattr(CLIENT, "disabled", True)
    elif switch == "level":
        monkeypatch.setattr(kept, "level", logging.ERROR)
    else:
        monkeypatch.setattr(CLIENT.manager, "disable", logging.WARNING)
    in_io_thread(CLIENT.warning, "not seen")
    assert kept.lines == []


def test_handlers_above_and_of_last_resort(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    above, last = Kept(), Kept()
    parent = logging.getLogger("kafkawire")
    monkeypatch.setattr(parent, "handlers", [above])
    monkeypatch.setattr(parent, "propagate", False)
    monkeypatch.setattr(logging, "lastResort", last)
    in_io_thread(CLIENT.warning, "one")
    assert kept.lines == above.lines == ["one"]
    monkeypatch.setattr(parent, "handlers", [])
    CLIENT.removeHandler(kept)
    in_io_thread(CLIENT.warning, "two")
    assert last.lines == ["two"]
    monkeypatch.setattr(logging, "lastResort", None)
    in_io_thread(CLIENT.warning, "three")


def test_a_handler_without_a_lock() -> None:
    """`logging.NullHandler`, for example, has none."""

    class Unlocked(Kept):
        def createLock(self) -> None:
            self.lock = None

        def handle(self, record: logging.LogRecord) -> bool:  # since Python 3.13, the inherited one needs a lock
            self.emit(record)
            return True

    guard_loggers()
    handler = Unlocked()
    CLIENT.addHandler(handler)
    in_io_thread(CLIENT.warning, "one")
    CLIENT.removeHandler(handler)
    assert handler.lines == ["one"]


def test_a_class_of_loggers_of_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(logging.Logger):
        def shout(self, text: str) -> None:
            self.warning(text.upper())

    logger, handler = logging.getLogger("kafkawire.security"), Kept()
    monkeypatch.setattr(logger, "__class__", Own)
    guard_loggers()
    assert isinstance(logger, Own)
    logger.addHandler(handler)
    in_io_thread(logger.shout, "text")
    handler.acquire()
    in_io_thread(logger.shout, "late")
    handler.release()
    assert handler.arrived.acquire(timeout=30)
    assert handler.arrived.acquire(timeout=30)
    logger.removeHandler(handler)
    assert handler.lines == ["TEXT", "LATE"]


class Broken(logging.Handler):
    """A handler that raises on every line, and keeps what it reports to `logging`."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: list[str] = []
        self.arrived = threading.Semaphore(0)

    def emit(self, record: logging.LogRecord) -> None:
        raise LookupError(record.getMessage())

    def handleError(self, record: logging.LogRecord) -> None:
        self.failed.append(str(sys.exc_info()[1]))
        self.arrived.release()


@pytest.mark.parametrize("is_io_thread", [False, True])
def test_a_handler_that_raises(kept: Kept, is_io_thread: bool) -> None:
    broken = Broken()
    CLIENT.handlers.insert(0, broken)
    try:
        if is_io_thread:
            in_io_thread(CLIENT.warning, "one")
        else:
            CLIENT.warning("one")
    finally:
        CLIENT.removeHandler(broken)
    assert broken.failed == kept.lines == ["one"]


def test_a_filter_that_raises(kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(record: logging.LogRecord) -> bool:
        raise LookupError(f"no {record.getMessage()}")

    CLIENT.addFilter(refuse)
    try:
        CLIENT.warning("one")
        in_io_thread(CLIENT.warning, "two")
    finally:
        CLIENT.removeFilter(refuse)
    assert kept.lines == ["one", "two"]
    assert capsys.readouterr().err.count("LookupError: no ") == 2


def test_a_late_line_whose_handler_raises_keeps_back_no_other(kept: Kept) -> None:
    broken = Broken()
    CLIENT.handlers.insert(0, broken)
    broken.acquire()
    kept.acquire()
    in_io_thread(CLIENT.warning, "one")
    broken.release()
    kept.release()
    CLIENT.removeHandler(broken)
    assert kept.arrived.acquire(timeout=30)
    assert broken.failed == kept.lines == ["one"]


def test_a_producer_whose_log_handler_raises_goes_on_after_an_outage() -> None:
    broken = Broken()
    logger = logging.getLogger("kafkawire")
    logger.addHandler(broken)
    try:
        with Broker(ephemeral=True) as broker, sync.Producer(broker.bootstrap) as producer:
            producer.send("orders", "before").result(30_000)
            broker.kill()
            delivery = producer.send("orders", "after")
            assert broken.arrived.acquire(timeout=30)
            broker.start()
            assert delivery.result(30_000).offset == 1
    finally:
        logger.removeHandler(broken)


class ToKafka(logging.Handler):
    """A handler that sends its lines to a topic, as many programs do."""

    def __init__(self, servers: str, **options: int) -> None:
        super().__init__()
        self.producer = sync.Producer(servers, **options)  # type: ignore[arg-type]  # options of any type
        self.producer.start()

    def emit(self, record: logging.LogRecord) -> None:
        self.producer.send("logs", self.format(record))  # it raises `Closed` at the end

    def handleError(self, record: logging.LogRecord) -> None: ...

    def close(self) -> None:
        self.producer.close()
        super().close()


def test_a_handler_that_starts_a_producer_while_logging_is_configured() -> None:
    """The producer cannot connect, and its I/O thread tries to log this while `dictConfig` holds every lock."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    settings = {
        "version": 1,
        "incremental": False,
        "disable_existing_loggers": False,
        "handlers": {"kafka": {"()": ToKafka, "servers": f"127.0.0.1:{free_port()}", "connect_timeout_ms": 1_000}},
        "root": {"handlers": ["kafka"], "level": "DEBUG"},
    }
    try:
        with pytest.raises(ValueError, match="Unable to configure handler 'kafka'") as caught:
            logging.config.dictConfig(settings)
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    error: BaseException | None = caught.value
    while error is not None and not isinstance(error, KafkaWireError):
        error = error.__cause__
    assert isinstance(error, KafkaWireError)


def test_a_handler_that_closes_its_producer_at_the_end() -> None:
    """`logging.shutdown` holds the lock of the handler to which the I/O thread tries to write a line."""
    logger = logging.getLogger("kafkawire")
    with Broker(ephemeral=True) as broker:
        handler = ToKafka(broker.bootstrap, delivery_timeout_ms=600, request_timeout_ms=300, linger_ms=0)
        handler.producer.send("logs", "before").result(30_000)
        logger.addHandler(handler)
        broker.kill()
        handler.producer.send("logs", "never acknowledged")
        try:
            handler.acquire()
            with pytest.raises(KafkaWireError):
                handler.close()
        finally:
            handler.release()
            logger.removeHandler(handler)
