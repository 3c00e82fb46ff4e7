"""Keep a client's metadata fresh, sending one request at a time and pausing between requests.

Metadata that is stale on arrival (a topic was deleted, a partition has no leader) is requested again after growing
pauses. A topic that has never been requested is requested immediately, and restarts the pauses, because a broker that
creates the topic will have it a moment later. An event during a request causes another request, since the response may
be older than the event. After a refused login, the request waits for the outcome of the next attempt (`refusals.py`).

Source: Apache Kafka, `Metadata`, `NetworkClient.DefaultMetadataUpdater`; KIP-1102 (rebootstrap on request).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from kafkawire.sdk.errors import BrokerError, KafkaWireError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import ANY_BROKER, Call
from kafkawire.sdk.routing.metadata import Metadata
from kafkawire.sdk.routing.options import RoutingOptions
from kafkawire.sdk.routing.requests import MetadataQuestion
from kafkawire.sdk.routing.retry import Attempts, is_refusal

__all__ = ["MetadataRefresh"]

logger = logging.getLogger("kafkawire.client")

#: A series of refreshes ends once the metadata has stayed fresh for this multiple of the longest pause.
_CALM_PAUSES = 2


class MetadataRefresh:
    """Refresh the metadata of one client.

    Args:
        metadata: the metadata to keep fresh.
        submit: sends a request.
        attempts: provides the pauses between refreshes that did not help.
        options: the client's options.
        creates_topics: whether requesting an unknown topic may create it, if the brokers allow that.

    Attributes:
        metadata: the metadata to keep fresh.
        ended_ms: when the last refresh ended; -1 before the first.
        refusal: why the last refresh failed, if brokers rejected this client or cannot be trusted; None otherwise.
    """

    def __init__(
        self,
        metadata: Metadata,
        submit: Callable[[Call, int], None],
        attempts: Attempts,
        options: RoutingOptions,
        creates_topics: bool,
    ) -> None:
        self.metadata = metadata
        self._submit = submit
        self._attempts = attempts
        self._options = options
        self._creates_topics = creates_topics
        self._running = False
        self._asked: frozenset[str] | None = frozenset()
        self.ended_ms = -1
        self.refusal: KafkaWireError | None = None
        #: The invalidation that each waiting caller wants resolved, oldest first.
        self._waiting: list[tuple[int, Callable[[KafkaWireError | None], None]]] = []
        self._missing: set[str] = set()
        self._lines = LogLimit(logger)

    def request(self, on_done: Callable[[KafkaWireError | None], None]) -> None:
        """Refresh as soon as the backoff allows; call `on_done` at the end, with the error if it failed.

        A request that was sent earlier is not sufficient, unless it fails.
        """
        self.metadata.invalidate()
        self._waiting.append((self.metadata.invalidations, on_done))

    def fail(self, error: KafkaWireError) -> None:
        """Tell callers that are waiting for a refresh that there will be none."""
        self._tell(self.metadata.invalidations, error)

    def poll(self, now_ms: int) -> int | None:
        """Send a refresh if one is due; return the new value of `due_ms`."""
        due_ms = self.due_ms()
        if due_ms is None or due_ms > now_ms:
            return due_ms
        self._send(now_ms)
        return None

    def due_ms(self) -> int | None:
        """Return when the next refresh is due; None while one is running."""
        if self._running:
            return None
        stale_ms = self.metadata.stale_ms()
        if self._wants_more():
            return stale_ms
        return max(stale_ms, self._attempts.not_before_ms)

    def _wants_more(self) -> bool:
        """Return whether a wanted topic was not in the last request."""
        wanted = self.metadata.wanted
        if self._asked is None:
            return False
        return wanted is None or not wanted <= self._asked

    def _send(self, now_ms: int) -> None:
        self._running = True
        if self._wants_more() or now_ms - self.ended_ms > _CALM_PAUSES * self._options.retry_backoff_max_ms:
            self._attempts.succeeded()
        wanted = self.metadata.wanted
        self._asked = None if wanted is None else frozenset(wanted)
        topics = (
            None
            if self._asked is None
            else [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(self._asked)]
        )
        request = MetadataRequest(topics, allow_auto_topic_creation=self._creates_topics)
        question = MetadataQuestion(self.metadata, request)
        deadline_ms = now_ms + self._options.api_timeout_ms
        call = Call(
            ANY_BROKER,
            question,
            MetadataResponse,
            deadline_ms,
            partial(self._ended, question),
            retries=False,
        )
        self._submit(call, now_ms)

    def _ended(self, question: MetadataQuestion, call: Call[MetadataResponse], now_ms: int) -> None:
        self._running = False
        self.ended_ms = now_ms
        error, metadata = call.error, self.metadata
        if error is None:
            asked = self._asked or frozenset()
            dropped = frozenset() if metadata.wanted is None else asked - metadata.wanted - metadata.topics.keys()
            error = question.take(call.answer, now_ms)
            if error is None:
                for name in dropped:  # a later request gets a new response
                    metadata.drop(name)
                self._note_missing(now_ms)
            else:
                metadata.expire()  # even if it is not old, because there was a reason to ask
        # Any refresh may be useless: the next one comes after a pause, unless the metadata now stays fresh for a while.
        self._attempts.failed(error or _IN_VAIN, now_ms)
        self.refusal = error if is_refusal(error) else None
        self._tell(question.invalidations if error is None else metadata.invalidations, error)

    def _tell(self, invalidations: int, error: KafkaWireError | None) -> None:
        """Tell the callers that wait for this or an earlier invalidation to be resolved whether it is."""
        told = [on_done for each, on_done in self._waiting if each <= invalidations]
        self._waiting = [waiter for waiter in self._waiting if waiter[0] > invalidations]
        for on_done in told:
            on_done(error)

    def _note_missing(self, now_ms: int) -> None:
        """Log which wanted topics are missing, and which are no longer missing."""
        if self._creates_topics:  # a producer itself logs that records wait for a topic
            return
        metadata = self.metadata
        missing = {name: code for name, code in metadata.errors.items() if name in (metadata.wanted or ())}
        for name in missing.keys() - self._missing:
            self._lines.warning(("missing", name), now_ms, "%s", BrokerError(missing[name], f"topic {name}"))
        for name in self._missing & metadata.topics.keys():
            self._lines.info(("known", name), now_ms, "topic %s is known now", name)
        self._missing = set(missing)


_IN_VAIN = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the metadata may be stale on arrival")
