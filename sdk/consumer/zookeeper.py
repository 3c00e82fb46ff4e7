"""The parts specific to a consumer in a ZooKeeper group: its session, offset stores and membership.

The registry's callbacks run on the driver's thread, one step at a time, so the machines work like any others.

Source: `ZookeeperConsumerConnector` in Apache Kafka 1.1; its threads and locks have no counterpart here.
"""

from __future__ import annotations

import platform
import uuid
from collections.abc import Callable
from typing import Final

from kafkawire.sdk.client.options import ConsumerOptions
from kafkawire.sdk.clock import now_ms as wall_ms
from kafkawire.sdk.errors import Closed, ConnectionLost, KafkaWireError, RequestTimedOut
from kafkawire.sdk.groups.auto_commit import Positions
from kafkawire.sdk.groups.committed_offsets import CommittedOffsets
from kafkawire.sdk.groups.dual_offsets import (
    CommitStore,
    DualCommittedOffsets,
    DualOffsets,
    LookUpStore,
    PositionsInBoth,
)
from kafkawire.sdk.groups.offsets import Offsets
from kafkawire.sdk.groups.protocol import GroupSettings, MemberReader, Notify, OnFailure, Step
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.groups.zookeeper_group import ZookeeperGroup, ZookeeperSettings
from kafkawire.sdk.groups.zookeeper_offsets import ZookeeperCommittedOffsets, ZookeeperOffsets
from kafkawire.sdk.registry.consumer_ids import new_consumer_id
from kafkawire.sdk.registry.registry import Post, Registry, RegistryError, SessionListener
from kafkawire.sdk.registry.zookeeper import SessionState, ZooKeeperRegistry
from kafkawire.sdk.routing.retry import Backoff
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.promise import Promise

__all__ = ["CLOSE_SESSION_MS", "RegistrySession", "posting", "stores", "zookeeper_member"]

#: How long the servers may take to confirm the end of a session. They need a few ms; without a confirmation, the
#: session times out, but by then the member has already deleted its nodes.
CLOSE_SESSION_MS: Final = 1_000

_UUID_LOW_BITS: Final = 64


def posting(post: Callable[[Step], None]) -> Post:
    """Return a function through which a registry has its functions called by a driver.

    Args:
        post: the driver's `post`.
    """

    def call_soon(function: Callable[[], None]) -> None:
        try:
            post(lambda now_ms: function())
        except Closed as error:
            raise RuntimeError(str(error)) from error  # the error that an event loop raises once it has ended

    return call_soon


class RegistrySession(SessionListener):
    """The machine for one consumer's session, from `open` to `close`.

    Args:
        options: the consumer's options.
        post: makes the driver call a function on its thread.

    Attributes:
        registry: the registry.

    Raises:
        ConfigurationError: kazoo is not installed, or a file for TLS or the login cannot be used.
    """

    def __init__(self, options: ConsumerOptions, post: Post) -> None:
        assert options.zookeeper_connect is not None, "the options were checked"
        self.registry = ZooKeeperRegistry(
            options.zookeeper_connect,
            post,
            session_timeout_ms=options.zookeeper_session_timeout_ms,
            security=options.zookeeper_security(),
        )
        self._opened: Promise[None] | None = None
        self._open_by_ms = 0

    def open(self, deadline_ms: int, promise: Promise[None]) -> None:
        """Connect; the promise is kept once there is a session, and fails at the deadline."""
        self._opened, self._open_by_ms = promise, deadline_ms
        self.registry.add_listener(self)
        self.registry.start()

    def close(self, timeout_ms: int, promise: Promise[None]) -> None:
        """End the session; the promise is kept once the end is confirmed, or after the timeout."""
        self.registry.begin_to_close(timeout_ms, lambda: promise.keep(None))

    def trouble(self) -> KafkaWireError | None:
        """Return why there is no session or no connection; None if there is one. Can be called from any thread."""
        if self.registry.state is SessionState.CONNECTED:
            return None
        return ConnectionLost(f"there is no connection to {self.registry.describe()}")

    # SessionListener.

    def opened(self) -> None:
        self._end_opening(None)

    def refused(self, error: RegistryError) -> None:
        self._end_opening(error)

    def suspended(self) -> None:
        """Keep waiting for the connection; the member is notified separately."""

    def connected(self) -> None:
        """Keep waiting for `opened`."""

    def expired(self) -> None:
        """Keep waiting for `opened`."""

    # Machine.

    def poll(self, now_ms: int) -> None:
        """Give up connecting after the limit."""
        if self._opened is not None and now_ms >= self._open_by_ms:
            self._end_opening(RequestTimedOut(f"no session with {self.registry.describe()} was opened in time"))

    def due_ms(self, now_ms: int) -> int | None:
        """Return when to poll again if nothing happens before then."""
        return None if self._opened is None else self._open_by_ms

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        """End the session without waiting."""
        self._end_opening(error)
        self.close(CLOSE_SESSION_MS, Promise())

    def _end_opening(self, error: KafkaWireError | None) -> None:
        promise, self._opened = self._opened, None
        if promise is not None:
            self.registry.remove_listener(self)
            if error is None:
                promise.keep(None)
            else:
                promise.fail(error)


def stores(
    options: ConsumerOptions, group_id: str, registry: Registry, router: Router, backoff: Backoff, reader: Positions
) -> tuple[CommitStore, LookUpStore]:
    """Return where a ZooKeeper group commits its offsets, and where it looks them up.

    Args:
        options: the consumer's options.
        group_id: the group.
        registry: gives access to the offsets in ZooKeeper.
        router: gives access to the offsets in Kafka.
        backoff: the pauses between attempts.
        reader: provides the assigned partitions and the finished positions.
    """
    interval_ms = options.auto_commit_interval_ms if options.enable_auto_commit else None
    timeout_ms = options.api_timeout_ms
    chosen = options.commits_to
    if chosen == {"zookeeper"}:
        zookeeper = ZookeeperOffsets(registry, backoff, group_id, reader, interval_ms, timeout_ms)
        return zookeeper, ZookeeperCommittedOffsets(registry, group_id)
    if chosen == {"kafka"}:
        kafka = Offsets(router, backoff, group_id, reader, interval_ms, timeout_ms)
        return kafka, CommittedOffsets(router, backoff, group_id)
    both = PositionsInBoth(reader)
    sides = (
        Offsets(router, backoff, group_id, both.sides[0], None, timeout_ms),
        ZookeeperOffsets(registry, backoff, group_id, both.sides[1], None, timeout_ms),
    )
    found = CommittedOffsets(router, backoff, group_id), ZookeeperCommittedOffsets(registry, group_id)
    return DualOffsets(group_id, sides, both, interval_ms, timeout_ms), DualCommittedOffsets(*found)


def zookeeper_member(
    options: ConsumerOptions,
    registry: Registry,
    router: Router,
    backoff: Backoff,
    settings: GroupSettings,
    subscription: Subscription,
    reader: MemberReader,
    offsets: CommitStore,
    notify: Notify,
    on_failure: OnFailure,
) -> ZookeeperGroup:
    """Return a member with a new id; see `ZookeeperGroup` for the arguments."""
    now_ms = wall_ms()
    consumer_id = new_consumer_id(settings.group_id, platform.node(), now_ms, uuid.uuid4().int >> _UUID_LOW_BITS)
    return ZookeeperGroup(
        registry,
        router,
        backoff,
        settings,
        ZookeeperSettings(consumer_id, now_ms, options.zookeeper_assignor),
        subscription,
        reader,
        offsets,
        notify,
        on_failure,
    )
