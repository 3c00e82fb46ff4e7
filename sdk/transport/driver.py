"""Drive the machines of one client; the driver owns the client's connections, timers and tasks.

A turn runs the queued steps, polls the machines and the router, carries out the router's actions and sets a timer for
the next turn. An event (a response, a connection that opened or ended, a call by the application) leads to a turn,
unless the event is a response for which nothing is waiting. All of this happens on one event loop: the caller's, or an
I/O thread's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from threading import get_ident
from typing import Any, Generic

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import (
    Closed,
    ConfigurationError,
    ConnectFailed,
    ConnectionLost,
    KafkaWireError,
    LocalProtocolError,
)
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.transport import fork, loop_watch, waiting
from kafkawire.sdk.transport.connection import BrokerConnection, ConnectionSettings
from kafkawire.sdk.transport.driver_interface import AnyCall, AnyLink, Machine, NextPoll, Open, Router, Send
from kafkawire.sdk.transport.log_lines import guard_loggers
from kafkawire.sdk.transport.owner import CLIENT, Owner
from kafkawire.sdk.transport.promise import Promise, Result
from kafkawire.sdk.transport.tasks import new_task
from kafkawire.sdk.transport.user_code import contained
from kafkawire.sdk.transport.wire import Network

__all__ = ["MAX_STEPS", "Driver", "Step"]

#: The maximum number of steps that may wait for the next turn: far more than any program needs, but a limit for a
#: runaway program.
MAX_STEPS = 20_000

#: Tasks that end dropped clients, kept here because an event loop has only weak references to its tasks.
_last_tasks: set[asyncio.Task[None]] = set()

#: A step to run on the driver's loop; it is called with the time.
Step = Callable[[int], None]


class Driver(Generic[AnyLink, AnyCall]):
    """Drive one client. Its methods may be called from any thread.

    Args:
        router: the client's router.
        machines: polled in this order.
        network: reaches the brokers.
        settings: the settings of each connection.
        name: the kind of client, such as `producer`, for errors.
        owner: the client or broker that owns the driver.
        on_defect: called with the error after an unexpected error has ended the driver; None for no callback.
    """

    def __init__(
        self,
        router: Router[AnyLink, AnyCall],
        machines: Sequence[Machine],
        network: Network,
        settings: ConnectionSettings,
        name: str = "client",
        *,
        owner: Owner = CLIENT,
        on_defect: Callable[[KafkaWireError], None] | None = None,
    ) -> None:
        self._router = router
        self._machines = machines
        self._network = network
        self._settings = settings
        self._name = name
        self._owner = owner
        self._on_defect = on_defect
        self._connections: dict[AnyLink, BrokerConnection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._performed: dict[Promise[Any], Coroutine[Any, Any, Any]] = {}
        self._endings: set[Promise[None]] = set()
        #: Whichever thread pops the only element ends the driver, without the help of its loop.
        self._may_end: list[None] = [None]
        self._steps: deque[Step] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        #: The context variables captured at `start`, used by turns, tasks and connections. Otherwise a turn would use
        #: the variables of the code that woke it, and a connection would keep those of one request for its entire life.
        self._context = Context()
        self._thread = 0
        #: The number of turns that have begun, and that number when the last turn was scheduled: if the two are equal,
        #: a turn is scheduled.
        self._turns = 0
        self._scheduled = -1
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = 0
        self._lag_ms = 0
        self._ended: KafkaWireError | None = None

    def start(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Start on the event loop of an `IoThread`; None to use the caller's loop."""
        self._loop = asyncio.get_running_loop() if loop is None else loop
        guard_loggers()
        self._context = copy_context()
        waiting.driving.add(self._loop)
        fork.watch(self)
        loop_watch.watch(self, self._loop)
        self.wake()

    def end(self, error: KafkaWireError) -> Promise[None]:
        """Fail everything that is unsettled, disconnect, and stop.

        Returns:
            A promise that is kept once the client has nothing left on the event loop.
        """
        ended: Promise[None] = Promise()
        if isinstance(self._ended, fork.Forked):
            ended.keep(None)  # the loop and the connections belong to the parent
        elif self._loop is None or self._loop.is_closed():
            self._end_without_loop(error)
            ended.keep(None)
        else:
            self._endings.add(ended)
            ended.add_done_callback(partial(self._endings.discard, ended))
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._end, error, ended)
            if self._loop.is_closed():  # it was closed earlier, or just now
                self._end_without_loop(error)
        return ended

    def let_go(self, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Schedule a coroutine that ends a dropped client; a finalizer calls this, so no lock is taken.

        Returns:
            Whether there is anything left to end.
        """
        loop = self._loop
        if loop is None or self._ended is not None or loop.is_closed():
            return False

        def begin() -> None:
            task = new_task(loop, work())
            _last_tasks.add(task)
            task.add_done_callback(_last_tasks.discard)

        try:
            loop.call_soon_threadsafe(begin)
        except RuntimeError:  # it was closed in the meantime
            return False
        return True

    @property
    def is_scheduled(self) -> bool:
        """Whether a turn is scheduled on the event loop."""
        return self._scheduled == self._turns

    def wake(self) -> None:
        """Schedule a turn.

        Raises:
            Forked: this process is a fork of the one that created the client.
        """
        if isinstance(self._ended, fork.Forked):
            self._check()
        turns = self._turns
        if self._scheduled == turns or self._loop is None or self._ended is not None:
            return
        try:
            context = self._context.copy()  # a turn may run inside another one if a loop is run recursively
            if get_ident() == self._thread:
                self._loop.call_soon(self._turn, context=context)
            else:
                self._loop.call_soon_threadsafe(self._turn, context=context)
            # Set last, since this code may be interrupted anywhere; if the turn has already begun, the value is merely
            # outdated.
            self._scheduled = turns
        except RuntimeError:
            self.check_loop()
            if self._ended is None and not self._loop.is_closed():  # otherwise another thread is ending the driver
                raise

    def check_loop(self) -> None:
        """End the driver if its event loop has ended, because pending results would never arrive."""
        if self._loop is not None and self._loop.is_closed():
            self._end_without_loop(self._without_loop())

    def lag_ms(self, now_ms: int) -> int:
        """Return the delay of the last timer, or of the pending one if it is overdue; can be called from any thread.

        A blocked event loop is noticed only once a timer is due, because turns without a timer are not measured.
        """
        overdue_ms = now_ms - self._timer_due_ms if self._timer_due_ms else 0
        return max(self._lag_ms, overdue_ms)

    def run(self, step: Step) -> None:
        """Run a step on the driver's loop.

        Raises:
            Closed: the driver has ended.
            LocalProtocolError: `MAX_STEPS` steps are waiting, because the event loop is blocked.
        """
        if len(self._steps) >= MAX_STEPS:
            self.check_loop()
            self._check()
            raise LocalProtocolError(
                f"too many calls: {MAX_STEPS} are waiting for the event loop; is the loop blocked?"
            )
        self.post(step)

    def post(self, step: Step) -> None:
        """Run a step on the driver's loop, with no limit on waiting steps; for parts that have few waiting at a time.

        Raises:
            Closed: the driver has ended.
        """
        self.check_loop()
        self._check()
        self._steps.append(step)
        self.wake()
        try:
            self._check()
        except Closed:  # the driver has since ended and will not run the step
            if step in self._steps:
                self._steps.remove(step)
                raise

    def ask(self, step: Callable[[Promise[Result], int], None], *, is_query: bool = False) -> Promise[Result]:
        """Run a step that settles a promise on the driver's loop; an error that it raises also settles the promise.

        Any error other than a `KafkaWireError` is a defect and ends the client.

        Args:
            step: the step.
            is_query: whether the promise fails if an await of it is cancelled, because only that caller wants the
                answer; the machine then stops looking for it.

        Raises:
            Closed: the driver has ended.
        """
        promise: Promise[Result] = Promise((lambda: promise.fail(_cancelled())) if is_query else None)

        def settle(now_ms: int) -> None:
            try:
                step(promise, now_ms)
            except KafkaWireError as error:
                promise.fail(error)
            except BaseException as defect:  # the turn ends the client, which no longer knows about the promise
                promise.fail(self._ended_by(defect))
                raise

        self.run(settle)
        return promise

    def perform(self, work: Coroutine[Any, Any, Result]) -> Promise[Result]:
        """Run a coroutine on the driver's loop; its result or error settles the promise.

        If an await of the promise is cancelled, so is the coroutine: what it has not sent by then is never sent.

        Raises:
            Closed: the driver has ended.
        """
        task: asyncio.Task[None] | None = None

        def cancel() -> None:
            promise.fail(_cancelled())
            if task is not None:
                self._cancel(task)

        promise: Promise[Result] = Promise(cancel)

        def give_up(*_: object) -> None:
            # The driver cancels its tasks as it ends. A task that has not begun leaves `work` open and the promise
            # unsettled.
            work.close()
            promise.fail(Closed(str(self._ended or self._without_loop())))

        def step(now_ms: int) -> None:
            nonlocal task
            if self._ended is not None:
                give_up()
                return
            self._performed[promise] = work
            promise.add_done_callback(partial(self._performed.pop, promise))
            task = self._start_task(self._perform(work, promise))
            task.add_done_callback(give_up)
            if promise.done:  # the caller was cancelled before this turn, or just now on another thread
                task.cancel()

        try:
            self.run(step)
        except KafkaWireError:
            work.close()
            raise
        return promise

    def forked(self, error: fork.Forked) -> None:
        """Reject all work in a child process, because the connections belong to its parent."""
        self._ended = error
        if self._loop is not None:
            loop_watch.forget(self, self._loop)

    def _check(self) -> None:
        if isinstance(self._ended, fork.Forked):
            raise self._ended.again()
        if self._ended is not None:
            raise Closed(str(self._ended)) from self._ended

    def _cancel(self, task: asyncio.Task[None]) -> None:
        """Cancel a task from any thread."""
        with suppress(RuntimeError):  # the loop was closed, and so nothing on it runs
            if get_ident() == self._thread:
                task.cancel()
            elif self._loop is not None:
                self._loop.call_soon_threadsafe(task.cancel)

    # On the driver's loop.

    def _end(self, error: KafkaWireError, ended: Promise[None]) -> None:
        self._stop(error)
        for task in self._tasks:
            task.cancel()
        gone = asyncio.gather(*self._tasks, return_exceptions=True)
        gone.add_done_callback(lambda _: self._gone(ended))

    def _gone(self, ended: Promise[None]) -> None:
        assert self._loop is not None
        loop_watch.forget(self, self._loop)
        ended.keep(None)

    def _without_loop(self) -> Closed:
        text = f"the event loop on which the {self._name} was started has ended, and so has the {self._name}"
        return Closed(f"{text}: create one on each event loop")

    def _end_without_loop(self, error: KafkaWireError) -> None:
        """Fail everything that is unsettled; callbacks left on a closed event loop never run."""
        self._connections.clear()  # their sockets were closed along with the loop
        self._stop(error)
        loop_watch.drop(task.get_coro() for task in tuple(self._tasks))
        for promise, work in tuple(self._performed.items()):
            loop_watch.drop([work])
            promise.fail(error)
        for ended in tuple(self._endings):
            ended.keep(None)
        if self._loop is not None:
            loop_watch.forget(self, self._loop)

    def _stop(self, error: KafkaWireError) -> None:
        if self._ended is not None:
            return
        try:
            self._may_end.pop()
        except IndexError:  # several threads may notice that the loop has ended
            return
        self._ended = error
        if self._timer is not None:
            self._timer.cancel()
        now_ms = monotonic_ms()
        while self._steps:  # the steps have promises to settle; the router refuses new calls
            self._guarded(self._steps.popleft(), now_ms)
        self._guarded(partial(self._router.close, error), now_ms)
        for machine in self._machines:
            self._guarded(partial(machine.fail, error), now_ms)
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _guarded(self, step: Step, now_ms: int) -> None:
        """Run one of the final steps; a defect in it must not prevent the other steps."""
        try:
            step(now_ms)
        except BaseException as error:
            if not isinstance(contained(error), KafkaWireError):
                self._owner.logger.exception("an error occurred while ending the %s", self._owner.name)

    def _turn(self) -> None:
        self._turns += 1
        self._thread = get_ident()
        if self._ended is not None:
            return
        now_ms = monotonic_ms()
        try:
            while self._steps:
                self._steps.popleft()(now_ms)
            for machine in self._machines:
                machine.poll(now_ms)
            for action in self._router.poll(now_ms):
                if isinstance(action, Send):
                    self._send(action.link, action.call, now_ms)
                elif isinstance(action, Open):
                    self._start_task(self._connect(action.link))
                else:
                    self._connections.pop(action.link).close()
            first_ms = self._router.due_ms(now_ms)
            for machine in self._machines:
                due_ms = machine.due_ms(now_ms)
                if due_ms is not None and (first_ms is None or due_ms < first_ms):
                    first_ms = due_ms
        except BaseException as error:  # better to fail every call than to hang in one
            self._defect(contained(error))
            return
        if first_ms is not None:
            self._set_timer(first_ms, now_ms)

    def _set_timer(self, due_ms: int, now_ms: int) -> None:
        """Schedule a turn at `due_ms`; a timer for an earlier time is kept, and its turn sets the next timer."""
        assert self._loop is not None
        if self._timer is not None:
            if now_ms < self._timer_due_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer_due_ms = max(due_ms, now_ms + 1)
        self._timer = self._loop.call_later((self._timer_due_ms - now_ms) / 1000, self._timer_fired)

    def _timer_fired(self) -> None:
        self._lag_ms = max(monotonic_ms() - self._timer_due_ms, 0)
        self._timer_due_ms = 0
        self.wake()

    def _send(self, link: AnyLink, call: AnyCall, now_ms: int) -> None:
        connection = self._connections.get(link)
        if connection is None:  # the connection ended in this turn
            self._router.failed(call, ConnectionLost(f"connection to {link.address} has ended"), now_ms)
            return
        try:
            request, version = call.request(connection)
            if call.response is None:
                connection.post(request, version)
                if connection.has_unsent:  # the request holds its memory until it is sent
                    link.congested = True
                    self._start_task(self._await_sent(link, connection, call))
                else:
                    self._router.answered(call, None, now_ms)
                    self.wake()
            else:
                connection.begin(request, partial(self._received, call), version, call.timeout_ms)
        except KafkaWireError as error:
            self._router.failed(call, error, now_ms)
            self.wake()
        if connection.is_congested and not link.congested:
            link.congested = True
            self._start_task(self._await_room(link, connection))

    def _received(self, call: AnyCall, response: Message | None, error: KafkaWireError | None) -> None:
        if self._ended is not None:
            return
        try:
            if error is not None:
                self._router.failed(call, error, monotonic_ms())
            else:
                self._router.answered(call, response, monotonic_ms())
        except BaseException as defect:
            self._defect(contained(defect))
            return
        if error is not None or call.next_poll is NextPoll.SOON:
            self.wake()
        elif call.next_poll is NextPoll.NOW:
            self._turn()

    async def _connect(self, link: AnyLink) -> None:
        try:
            connection = await BrokerConnection.open(self._network, link.address, self._settings)
        except (ConnectFailed, ConfigurationError) as error:
            if self._ended is None:
                self._router.closed(link, error, monotonic_ms())
        else:
            if self._ended is not None:
                connection.close()
                return
            self._connections[link] = connection
            connection.on_end = partial(self._lost, link)
            self._router.opened(link, connection, monotonic_ms())
        self.wake()

    def _lost(self, link: AnyLink, error: KafkaWireError) -> None:
        self._connections.pop(link, None)
        if self._ended is not None:
            return
        try:
            self._router.closed(link, error, monotonic_ms())
        except BaseException as defect:
            self._defect(contained(defect))
        else:
            self.wake()

    async def _perform(self, work: Coroutine[Any, Any, Result], promise: Promise[Result]) -> None:
        try:
            promise.keep(await work)
        except Exception as error:
            promise.fail(error)
        self.wake()

    async def _await_room(self, link: AnyLink, connection: BrokerConnection) -> None:
        await connection.drain()
        link.congested = False
        self.wake()

    async def _await_sent(self, link: AnyLink, connection: BrokerConnection, call: AnyCall) -> None:
        error: KafkaWireError | None = None
        try:
            await connection.sent()
        except KafkaWireError as lost:
            error = lost
        link.congested = False
        self._received(call, None, error)

    def _start_task(self, work: Any) -> asyncio.Task[None]:
        assert self._loop is not None
        task: asyncio.Task[None] = new_task(self._loop, work)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._defect(error)

    def _defect(self, error: BaseException) -> None:
        """End the owner because of an unexpected error, after which its decisions cannot be trusted."""
        is_first = self._ended is None
        failure = self._ended_by(error)
        self._stop(failure)
        if is_first and self._on_defect is not None:
            self._on_defect(failure)
        self._owner.logger.error("the %s has ended because of a defect", self._owner.name, exc_info=error)

    def _ended_by(self, defect: BaseException) -> KafkaWireError:
        """Return the error for everything left unsettled when a defect ends the owner."""
        failure = KafkaWireError(f"the {self._owner.name} has ended because of a defect: {defect!r}")
        failure.__cause__ = defect
        return failure


def _cancelled() -> KafkaWireError:
    """Return the error of a promise whose caller was cancelled; nobody sees it unless others await the promise too."""
    return LocalProtocolError("the caller was cancelled")
