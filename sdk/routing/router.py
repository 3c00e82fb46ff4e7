"""Route calls to brokers: decide which connections to open, when to send calls, and which ones to retry.

The router is a machine without I/O. Producers, consumers and admins submit calls; the driver (`transport/driver.py`)
carries out the actions that `poll` returns and reports what happened. The router keeps the metadata fresh and looks up
the coordinators. The work per event grows with the number of changes, not with the number of waiting calls.

Source: Apache Kafka, `NetworkClient`, `ConsumerNetworkClient`; KIP-219 (throttling), KIP-899 (rebootstrap).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from heapq import heappop, heappush
from typing import Final

from kafkawire.sdk.errors import (
    AuthenticationFailed,
    BrokerError,
    Closed,
    ConnectFailed,
    KafkaWireError,
    LocalProtocolError,
    RequestTimedOut,
)
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.metrics.registry import Registry
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.routing.call import ANY_BROKER, Call, Coordinator, Node, Purpose, Target
from kafkawire.sdk.routing.coordinators import Coordinators
from kafkawire.sdk.routing.links import IMPATIENT_MS, Link, Links, LinkState
from kafkawire.sdk.routing.metadata import Metadata
from kafkawire.sdk.routing.metadata_refresh import MetadataRefresh
from kafkawire.sdk.routing.options import RoutingOptions
from kafkawire.sdk.routing.refresh import Refresh
from kafkawire.sdk.routing.request_metrics import RequestMetrics
from kafkawire.sdk.routing.retry import Attempts, Backoff, outdates_metadata
from kafkawire.sdk.transport.driver_interface import NextPoll, Open, Send, Shut, Versions
from kafkawire.sdk.transport.owner import CLIENT, Owner
from kafkawire.sdk.transport.wire import Address

__all__ = ["MAX_CALLS", "NOT_IN_CLUSTER", "Action", "Router"]

#: Throttling for at least this long is logged as a warning, because it explains latency and timeouts that users see.
_LONG_THROTTLE_MS = 1_000

#: The maximum number of unsettled calls: far more than any program needs, but a limit for a runaway program.
MAX_CALLS = 20_000

#: The maximum number of calls in flight on one connection: more would only wait in the broker's socket, beyond the
#: client's control.
_IN_FLIGHT_MAX = 100

#: The maximum number of surplus deadlines: removing the deadline of each ended call immediately would cost more than
#: keeping a few numbers in memory.
_SPARE_DEADLINES = 100

#: Why a node cannot be reached that is not in the metadata.
NOT_IN_CLUSTER: Final = "the cluster does not include it"

Action = Open[Link] | Send[Link, Call] | Shut[Link]


class _Entry:
    """An unsettled call, its number and its attempts; while the call is in flight, since `since_ms`, `link` is set."""

    __slots__ = ("attempts", "call", "link", "number", "since_ms")

    def __init__(self, call: Call, number: int, attempts: Attempts, since_ms: int) -> None:
        self.call = call
        self.number = number
        self.attempts = attempts
        self.since_ms = since_ms
        self.link: Link | None = None


class _Bucket:
    """The calls that wait for one target, oldest first; `judged_ms` is when the last failure was reported to them."""

    __slots__ = ("entries", "judged_ms")

    def __init__(self) -> None:
        self.entries: deque[_Entry] = deque()
        self.judged_ms = -1


class Router:
    """Route the calls of one client, or of a broker to other brokers.

    Args:
        options: the owner's options.
        backoff: the pauses between attempts.
        creates_topics: whether requesting an unknown topic may create it, if the brokers allow that.
        refresh: keeps the metadata fresh; None to ask the brokers.
        owner: the client or broker that owns the router.

    Attributes:
        metadata: the latest known state of the cluster.
        metrics: the owner's metrics.
    """

    def __init__(
        self,
        options: RoutingOptions,
        backoff: Backoff,
        *,
        creates_topics: bool = False,
        refresh: Refresh | None = None,
        owner: Owner = CLIENT,
    ) -> None:
        self.metadata = Metadata(options.metadata_max_age_ms) if refresh is None else refresh.metadata
        self._options = options
        self._backoff = backoff
        self._buckets: dict[tuple[Target, Purpose], _Bucket] = {}
        self._in_flight: dict[Call, _Entry] = {}
        self._unsettled: dict[int, _Entry] = {}
        self._submissions = 0
        self._later: list[tuple[int, int, _Entry]] = []
        self._deadlines: list[tuple[int, int]] = []
        self._refresh_ms: int | None = None
        self._owner = owner
        self._links = Links(options, self.metadata, backoff, owner=owner)
        self._actions: list[Action] = []
        self.metrics = Registry(options.KIND)
        self._meter = RequestMetrics(self.metrics, options.KIND, self.metadata, self._links.all)
        self._coordinators = Coordinators(self.submit, self._not_found, options.api_timeout_ms)
        self._refresh: Refresh = refresh or MetadataRefresh(
            self.metadata, self.submit, Attempts(backoff), options, creates_topics
        )
        self._lines, self._refusals = LogLimit(owner.logger), LogLimit(owner.security_logger)
        self._closed: KafkaWireError | None = None

    # Called by machines.

    def submit(self, call: Call, now_ms: int, link: Link | None = None) -> None:
        """Accept a call; it is settled no later than its deadline.

        Args:
            call: the call, which is sent when that is possible.
            now_ms: the time.
            link: the link to its node, returned by `reach` in the same iteration; None to find one.

        Raises:
            LocalProtocolError: `MAX_CALLS` calls are unsettled.
            Closed: the owner was closed.
        """
        if self._closed is not None:
            raise Closed(f"the {self._owner.name} was closed") from self._closed
        if len(self._unsettled) >= MAX_CALLS:
            raise LocalProtocolError(f"too many calls: {MAX_CALLS} have not ended yet")
        number = call.number = self._number()
        attempts = Attempts(self._backoff, call.deadline_ms, final=call.final, pauses=call.pauses)
        entry = _Entry(call, number, attempts, now_ms)
        self._unsettled[number] = entry
        heappush(self._deadlines, (call.deadline_ms, number))
        if len(self._deadlines) > 2 * len(self._unsettled) + _SPARE_DEADLINES:
            self._forget_deadlines()
        target = call.target
        if type(target) is Node and (target, call.purpose) not in self._buckets:  # it does not overtake another call
            if link is None:
                link = self._links.to_node(target.node_id, call.purpose)
            if link is not None and link.takes_calls(now_ms) and link.in_flight < _IN_FLIGHT_MAX:
                self._actions.append(self._sent(entry, link, now_ms))
                return
        self._enqueue(entry, now_ms)

    def withdraw(self, call: Call) -> None:
        """Cancel a call: it is not sent, unless it was sent already, and does not count as unsettled."""
        call.cancel()
        entry = self._unsettled.pop(call.number, None)
        if entry is None:
            return
        bucket = self._buckets.get((call.target, call.purpose))
        if bucket is not None:
            with suppress(ValueError):  # it is in flight, or waits for its next attempt
                bucket.entries.remove(entry)
        for action in self._actions:
            if isinstance(action, Send) and action.call is call and entry.link is not None:
                self._actions.remove(action)
                del self._in_flight[call]
                entry.link.in_flight -= 1
                return

    def reach(self, node_id: int, now_ms: int) -> Link | None:
        """Return the link for data to a broker if it accepts calls now; otherwise request that it be opened.

        For machines that prepare a request only when it can be sent.
        """
        link = self._links.to_node(node_id, Purpose.DATA)
        if link is None:
            self.metadata.expire()
            return None
        if link.takes_calls(now_ms):
            return link
        self._links.want(link)
        return None

    def refusal(self, node_id: int) -> KafkaWireError | None:
        """Return why a broker has refused the last login; None if it has not. Each attempt has its own error."""
        link = self._links.to_node(node_id, Purpose.DATA)
        return None if link is None else self._links.refusal(link)

    @property
    def last_refusal(self) -> KafkaWireError | None:
        """Why this client's last login was refused, for timeout errors; None while a broker serves it."""
        return self._links.last_refusal

    def trouble(self, node_id: int | None = None) -> KafkaWireError | None:
        """Return why a broker, or any broker if none is named, cannot be reached; None if nothing has gone wrong."""
        if node_id is not None:
            link = self._links.to_node(node_id, Purpose.DATA)
            return None if link is None else link.attempts.last_error
        errors = [link.attempts.last_error for link in self._links.candidates()]
        return errors[0] if errors and all(errors) else None

    def throttling(self, since_ms: int, node_id: int | None = None) -> str:
        """Return which brokers throttled this client and for how long (KIP-219), for timeout errors.

        Any thread may call this.

        Args:
            since_ms: only throttling after this time is included.
            node_id: the broker whose throttling is included; None for all brokers.

        Returns:
            The end of a sentence, beginning with a semicolon; empty if no broker has throttled this client.
        """
        broker = None if node_id is None else self.metadata.brokers.get(node_id)
        return self._links.throttling(since_ms, None if broker is None else broker.address)

    def knows(self, target: Coordinator) -> bool:
        """Return whether a coordinator has been looked up."""
        return self._coordinators.knows(target)

    def coordinator_trouble(self, target: Coordinator) -> KafkaWireError | None:
        """Return why the lookup of a coordinator has not succeeded yet; None if nothing has gone wrong."""
        return self._coordinators.trouble(target)

    def refresh(self, on_done: Callable[[KafkaWireError | None], None]) -> None:
        """Refresh the metadata as soon as the backoff allows, then call `on_done`, with the error if it failed."""
        if self._closed is not None:
            on_done(self._closed)
        else:
            self._refresh.request(on_done)

    def drop(self, address: Address) -> None:
        """Close the connections to an address; the calls in flight on them fail as if the broker had closed them."""
        self._links.drop(address)
        self._coordinators.forget_at(address)

    # Called by the driver.

    def poll(self, now_ms: int) -> list[Action]:
        """Return the actions to carry out now."""
        if self._closed is not None:
            return []
        if self._deadlines and self._deadlines[0][0] <= now_ms:
            self._expire(now_ms)
        while self._later and self._later[0][0] <= now_ms:
            entry = heappop(self._later)[2]
            if entry.call.done:
                self._unsettled.pop(entry.number, None)
            else:
                self._enqueue(entry, now_ms)
        self._refresh_ms = self._refresh.poll(now_ms)
        actions, self._actions = self._actions, []
        before = -1
        while self._buckets and before != self._submissions:  # looking up a coordinator submits another call
            before = self._submissions
            for key, bucket in list(self._buckets.items()):
                self._drain(*key, bucket, now_ms, actions)
            self._refresh_ms = self._refresh.due_ms()  # a call to an unlisted broker makes the metadata stale
        if now_ms >= self._links.due_ms:
            for action in self._links.tend(now_ms):
                if isinstance(action, Shut):
                    self._meter.closed(LinkState.READY, None, now_ms)
                actions.append(action)
        return actions

    def due_ms(self, now_ms: int) -> int | None:
        """Return when to poll again if nothing happens before then; None after `close`. Call `poll` first."""
        if self._closed is not None:
            return None
        due_ms = self._links.due_ms
        if self._later and self._later[0][0] < due_ms:
            due_ms = self._later[0][0]
        if self._deadlines and self._deadlines[0][0] < due_ms:
            due_ms = self._deadlines[0][0]
        refresh_ms = self._refresh_ms
        return due_ms if refresh_ms is None or refresh_ms > due_ms else refresh_ms

    def opened(self, link: Link, connection: Versions, now_ms: int) -> None:
        """Report that a connection is ready."""
        if link.attempts.failures:
            self._lines.info(("up", link.address), now_ms, "%s can be reached again", link)
        self._meter.opened(now_ms)
        self._links.opened(link, connection, now_ms)

    def closed(self, link: Link, error: KafkaWireError, now_ms: int) -> None:
        """Report that a connection could not be opened or has ended; its calls are reported separately."""
        self._meter.closed(link.state, error, now_ms)
        is_idle = link.state is LinkState.READY and not link.in_flight
        self._links.closed(link, error, now_ms)
        self.metadata.invalidate()
        self._coordinators.forget_at(link.address)
        if isinstance(error, AuthenticationFailed):
            self._refusals.error(link.address, now_ms, "%s", error)
        elif is_idle:  # brokers and load balancers close idle connections; nothing was lost
            self._lines.info(("idle", link.address), now_ms, "%s, while idle", error)
        else:
            self._lines.warning(link.address, now_ms, "%s (%d in a row)", error, link.attempts.failures)

    def answered(self, call: Call, response: Message | None, now_ms: int) -> None:
        """Report the response to a call; None for a written request that has no response."""
        entry = self._came_back(call, now_ms)
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if response is not None and entry.link is not None:
            self._meter.answered(entry.link, response, now_ms - entry.since_ms, throttle_ms, now_ms)
        if throttle_ms > 0 and entry.link is not None:
            entry.link.throttled(throttle_ms, now_ms)
            self._links.changed(now_ms)
            write = self._lines.warning if throttle_ms >= _LONG_THROTTLE_MS else self._lines.info
            text = "%s throttles this %s, which exceeds a quota: no requests for %d ms"
            write(("throttled", entry.link.address), now_ms, text, entry.link, self._owner.name, throttle_ms)
        error = None if call.check is None or response is None else call.check(response)
        if error is None:
            self._settle(entry, response, None, now_ms)
        else:
            self._failed(entry, error, now_ms, response)
        if call.next_poll is NextPoll.NONE and (self._buckets or throttle_ms > 0):
            call.next_poll = NextPoll.SOON  # other calls wait for this link or its broker

    def failed(self, call: Call, error: KafkaWireError, now_ms: int) -> None:
        """Report that a call could not be sent or got no response."""
        self._failed(self._came_back(call, now_ms), error, now_ms)

    def close(self, error: KafkaWireError, now_ms: int) -> None:
        """Fail all calls, including later ones."""
        self._closed = error
        self._buckets.clear()
        self._later.clear()
        self._refresh.fail(error)
        for entry in list(self._unsettled.values()):
            self._settle(entry, None, error, now_ms)

    # Calls.

    def _number(self) -> int:
        self._submissions += 1
        return self._submissions

    def _enqueue(self, entry: _Entry, now_ms: int) -> None:
        entry.since_ms = now_ms
        entry.link = None
        call = entry.call
        self._buckets.setdefault((call.target, call.purpose), _Bucket()).entries.append(entry)

    def _came_back(self, call: Call, now_ms: int) -> _Entry:
        entry = self._in_flight.pop(call)
        if entry.link is not None:
            entry.link.in_flight -= 1
            entry.link.used_ms = now_ms
        return entry

    def _settle(self, entry: _Entry, result: Message | None, error: KafkaWireError | None, now_ms: int) -> None:
        self._unsettled.pop(entry.number, None)
        entry.call.settle(result, error, now_ms)

    def _failed(self, entry: _Entry, error: KafkaWireError, now_ms: int, response: Message | None = None) -> None:
        """Retry a call later, or end it."""
        call = entry.call
        if outdates_metadata(error):
            self.metadata.invalidate()
        if isinstance(call.target, Coordinator):
            self._coordinators.note(call.target, error)
        again = entry.attempts.failed(error, now_ms) and call.retries and not call.done and self._closed is None
        if again:
            heappush(self._later, (entry.attempts.not_before_ms, self._number(), entry))
            pause_ms = entry.attempts.not_before_ms - now_ms
            self._lines.info(
                (call.target, call.response), now_ms, "%s: trying again in %d ms: %s", call, pause_ms, error
            )
        else:
            self._settle(entry, response, error, now_ms)

    def _expire(self, now_ms: int) -> None:
        self._forget_deadlines()
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            entry = self._unsettled.get(heappop(self._deadlines)[1])
            if entry is not None:
                target = entry.call.target
                trouble = self._coordinators.trouble(target) if isinstance(target, Coordinator) else None
                throttling = self.throttling(entry.since_ms, target.node_id if isinstance(target, Node) else None)
                cause = entry.attempts.last_error or trouble or self._links.last_refusal
                error = _too_late(entry, cause, throttling)
                self._settle(entry, None, error, now_ms)

    def _forget_deadlines(self) -> None:
        """Forget the deadlines of calls that have ended."""
        self._deadlines = sorted(each for each in self._deadlines if each[1] in self._unsettled)  # is a heap

    def _drain(self, target: Target, purpose: Purpose, bucket: _Bucket, now_ms: int, actions: list[Action]) -> None:
        """Send those calls to one target that can be sent now."""
        while bucket.entries:
            entry = bucket.entries[0]
            if entry.call.done:
                self._unsettled.pop(bucket.entries.popleft().number, None)
                continue
            link = self._choose(target, purpose, bucket, now_ms)
            if link is None or link.in_flight >= _IN_FLIGHT_MAX:
                return
            bucket.entries.popleft()
            actions.append(self._sent(entry, link, now_ms))
        self._buckets.pop((target, purpose), None)

    def _sent(self, entry: _Entry, link: Link, now_ms: int) -> Send[Link, Call]:
        """Return the action that sends a call."""
        entry.link = link
        link.in_flight += 1
        link.used_ms = entry.since_ms = now_ms
        self._in_flight[entry.call] = entry
        return Send(link, entry.call)

    # Targets.

    def _choose(self, target: Target, purpose: Purpose, bucket: _Bucket, now_ms: int) -> Link | None:
        """Return the link for a target's calls; if there is none yet, request one and return None."""
        if target is ANY_BROKER:
            return self._any(bucket, now_ms)
        if isinstance(target, Coordinator):
            address = self._coordinators.find(target, now_ms)
            if address is None:
                return None
            link: Link | None = self._links.to(address, purpose)
        else:
            node_id = target.node_id if isinstance(target, Node) else self.metadata.controller_id
            link = None if node_id is None else self._links.to_node(node_id, purpose)
            if link is None:
                self.metadata.expire()
                reason = "the cluster has no controller" if node_id is None else NOT_IN_CLUSTER
                error = self._refresh.refusal or ConnectFailed(target, reason)
                self._refuse(bucket, error, self._refresh.ended_ms, now_ms, is_absent=node_id is not None)
                return None
        assert link is not None
        if link.takes_calls(now_ms):
            return link
        self._links.want(link)
        if link.state is LinkState.CLOSED and (failure := self._links.failure(link)) is not None:
            self._refuse(bucket, *failure, now_ms)
        return None

    def _not_found(self, target: Coordinator, error: KafkaWireError, now_ms: int) -> None:
        """Fail the calls for every purpose that wait for a coordinator, because its lookup has failed."""
        for purpose in Purpose:
            bucket = self._buckets.get((target, purpose))
            if bucket is not None:
                waiting, bucket.entries = bucket.entries, deque()
                for entry in waiting:
                    self._failed(entry, error, now_ms)

    def _any(self, bucket: _Bucket, now_ms: int) -> Link | None:
        """Return the ready link with the fewest calls; if none is ready, open a link with the fewest failures.

        After a refused login, the calls that wait do not try the next broker, because another wrong login might lock
        the user out. While another broker serves this client, even a throttling one, the refusal ends no call.
        """
        links = self._links.candidates()
        ready = [link for link in links if link.takes_calls(now_ms)]
        if ready:
            return min(ready, key=lambda link: link.in_flight)
        closed = [link for link in links if link.state is LinkState.CLOSED]
        if any(link.state is LinkState.READY for link in links):
            closed = [link for link in closed if self._links.refusal(link) is None]
        else:
            failures = [failure for link in closed if (failure := self._links.failure(link)) is not None]
            if final := [failure for failure in failures if not failure[0].retriable]:
                self._refuse(bucket, *max(final, key=lambda failure: failure[1]), now_ms)
        if any(link.state is LinkState.OPENING and now_ms - link.since_ms < IMPATIENT_MS for link in links):
            return None
        if links and len(closed) == len(links) and all(link.attempts.failures for link in links):
            self._refuse(bucket, _none_reached(links), min(link.since_ms for link in links), now_ms)
        if bucket.entries and closed:  # a machine may keep asking for a broker that is gone
            self._links.want(min(closed, key=lambda link: (link.attempts.failures, link.attempts.not_before_ms)))
        return None

    def _refuse(
        self, bucket: _Bucket, error: KafkaWireError, happened_ms: int, now_ms: int, *, is_absent: bool = False
    ) -> None:
        """Apply a failure to a target's calls: calls without retries end; if the error is final, all calls end.

        If the target is absent from the cluster, calls that have waited for it for their `absent_ms` end, too.
        """
        if bucket.judged_ms >= happened_ms:
            return
        bucket.judged_ms = happened_ms
        waiting, bucket.entries = bucket.entries, deque()
        for entry in waiting:
            if entry.since_ms > happened_ms:  # the call came later, so it still gets an attempt
                bucket.entries.append(entry)
                continue
            entry.attempts.last_error = error
            absent_ms = entry.call.absent_ms
            waited_ms = self.metadata.refreshed_ms - entry.since_ms  # NaN before the first response
            is_over = is_absent and absent_ms is not None and waited_ms >= absent_ms
            if entry.call.retries and error.retriable and not is_over:
                bucket.entries.append(entry)
            else:
                self._settle(entry, None, error, now_ms)


def _none_reached(links: Collection[Link]) -> ConnectFailed:
    """Return the error after every broker has failed; it has a phase if all of them failed in the same one."""
    errors = [link.attempts.last_error for link in links]
    failed = ConnectFailed("any broker", "; ".join(map(str, errors)))
    failed.address = ", ".join(str(link.address) for link in links)
    phases = {error.phase if isinstance(error, ConnectFailed) else None for error in errors}
    failed.phase = phases.pop() if len(phases) == 1 else None
    failed.__cause__ = max(links, key=lambda link: link.since_ms).attempts.last_error
    return failed


def _too_late(entry: _Entry, cause: KafkaWireError | None, throttling: str) -> KafkaWireError:
    """Return the error for a call whose deadline has passed, including the last error from a broker, if any."""
    if isinstance(cause, BrokerError):
        return cause
    where = "there was no response" if entry.link is not None else "there was no broker to send it to"
    reason = f"; {cause}" if cause is not None else ""
    error = RequestTimedOut(f"{entry.call}: {where} in time{reason}{throttling}")
    error.__cause__ = cause
    return error
