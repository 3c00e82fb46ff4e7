"""Choose the protocol of a group: KIP-848 if the coordinator offers it for the group, otherwise the classic protocol.

The first heartbeat is rejected if the coordinator is older than KIP-848, if the protocol is disabled, or if the group
has classic members that cannot be migrated. Nothing has been assigned by then, so the classic protocol starts from
scratch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum

from kafkawire.sdk.errors import BrokerError, KafkaWireError, UnsupportedVersion
from kafkawire.sdk.groups.protocol import Event, GroupMetadata, GroupProtocol, OnFailure
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.promise import Promise

__all__ = ["AutoGroup"]

logger = logging.getLogger("kafkawire.group")

#: The error codes returned by a coordinator that does not offer KIP-848 for a group.
_NOT_OFFERED = frozenset({ErrorCode.UNSUPPORTED_VERSION, ErrorCode.GROUP_ID_NOT_FOUND})

#: Creates a group protocol, given the subscription and the callback for its failure.
Make = Callable[[Subscription, OnFailure], GroupProtocol]


class AutoGroup:
    """A membership that uses the newest protocol that the coordinator offers; see `GroupProtocol`.

    Args:
        consumer: creates the member of a KIP-848 group.
        classic: creates the member of a classic group.
        subscription: the topics that the member wants to read.
        on_failure: called with an error that ends the membership permanently.
    """

    def __init__(self, consumer: Make, classic: Make, subscription: Subscription, on_failure: OnFailure) -> None:
        self._subscription = subscription
        self._on_failure = on_failure
        self._classic = classic
        self._is_undecided = True
        self._group = consumer(subscription, self._failed)

    @property
    def failure(self) -> KafkaWireError | None:
        return self._group.failure

    @property
    def last_heartbeat_ms(self) -> int | None:
        return self._group.last_heartbeat_ms

    @property
    def state(self) -> Enum:
        return self._group.state

    @property
    def trouble(self) -> KafkaWireError | None:
        return self._group.trouble

    def start(self, now_ms: int) -> None:
        self._group.start(now_ms)

    def subscribe(self, subscription: Subscription, now_ms: int) -> None:
        self._subscription = subscription
        self._group.subscribe(subscription, now_ms)

    def acknowledge(self, event: Event, now_ms: int) -> None:
        self._group.acknowledge(event, now_ms)

    def sign(self) -> GroupMetadata | None:
        return self._group.sign()

    def is_current(self, generation: int) -> bool:
        return self._group.is_current(generation)

    def rejected(self, signature: GroupMetadata, error: KafkaWireError, now_ms: int) -> None:
        self._group.rejected(signature, error, now_ms)

    def stop(self, deadline_ms: int, promise: Promise[None], now_ms: int) -> None:
        self._is_undecided = False
        self._group.stop(deadline_ms, promise, now_ms)

    def poll(self, now_ms: int) -> None:
        if self._group.last_heartbeat_ms is not None:
            self._is_undecided = False
        self._group.poll(now_ms)

    def due_ms(self, now_ms: int) -> int | None:
        return self._group.due_ms(now_ms)

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        self._is_undecided = False
        self._group.fail(error, now_ms)

    def _failed(self, error: KafkaWireError, now_ms: int) -> None:
        refused = isinstance(error, BrokerError) and error.code in _NOT_OFFERED
        if self._is_undecided and (refused or isinstance(error, UnsupportedVersion)):
            self._is_undecided = False
            logger.info("the coordinator does not offer KIP-848 for this group (%s): using the classic protocol", error)
            self._group = self._classic(self._subscription, self._on_failure)
            self._group.start(now_ms)
        else:
            self._on_failure(error, now_ms)
