"""A producer's topics, which are looked up when a record waits for them and forgotten after being idle for long.

Topics are looked up independently: one that does not exist does not delay others. Every metadata refresh, at the
router's intervals, repeats the lookup until the topic's records reach their deadline or a non-retriable error is
returned.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from kafkawire.sdk.client.options import ProducerOptions
from kafkawire.sdk.errors import BrokerError, DeliveryTimedOut, KafkaWireError, LocalProtocolError, TransactionAborted
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.near_names import nearest
from kafkawire.sdk.producer.accumulator import Accumulator
from kafkawire.sdk.producer.arguments import Held
from kafkawire.sdk.producer.outcome import Outcome
from kafkawire.sdk.producer.producer_topic import ProducerTopic
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.retry import is_refusal
from kafkawire.sdk.routing.router import Router

__all__ = ["ABSENT_MS", "TopicRegistry"]

logger = logging.getLogger("kafkawire.producer")

#: A partition that no response has named for this long is assumed not to exist: no broker takes this long to learn of a
#: new one.
ABSENT_MS = 10_000

#: How long a topic may be missing before this is logged: by then, a broker that creates topics has created it, even if
#: its disk is slow.
_REPORTED_AFTER_MS = 1_000


class _Missing:
    """A topic that is wanted but unknown.

    Attributes:
        error: the reason; None before the first response.
        refreshed_ms: when the first response without the topic arrived.
        is_reported: whether this was logged.
    """

    __slots__ = ("error", "is_reported", "refreshed_ms")

    def __init__(self) -> None:
        self.error: BrokerError | None = None
        self.refreshed_ms = 0.0
        self.is_reported = False


class _Moved(Protocol):
    def __call__(self, outcome: Outcome, *others: Outcome) -> None: ...


class TopicRegistry:
    """The topics of one producer.

    Args:
        options: the producer's options.
        router: keeps the metadata of the wanted topics.
        accumulator: holds their records.
        ended: called with each outcome that this class settles.
        moved: called with the outcome of a record that goes into a batch and the outcome of the batch.
    """

    def __init__(
        self,
        options: ProducerOptions,
        router: Router,
        accumulator: Accumulator,
        ended: Callable[[Outcome], None],
        moved: _Moved,
    ) -> None:
        self._options = options
        self._router = router
        self._accumulator = accumulator
        self._ended = ended
        self._moved = moved
        self._missing: dict[str, _Missing] = {}
        self._doubtful: set[str] = set()
        #: When a response first lacked a partition that a topic's records wait for, keyed by topic.
        self._lacking: dict[str, int] = {}
        self._idle_check_ms: int | None = None
        self._lines = LogLimit(logger)

    def want(self, name: str, now_ms: int) -> None:
        """Request a lookup of a topic for a record waiting for it, or for a partition that may have been added."""
        if self._accumulator.topics[name].partitions:
            self._confirm(name)
            return
        if name not in self._missing:
            self._missing[name] = _Missing()
            wanted = self._router.metadata.wanted
            if wanted is not None:
                wanted.add(name)
            if self._idle_check_ms is None:
                self._idle_check_ms = now_ms + self._options.metadata_max_idle_ms
        self._look(name, now_ms)

    def miss(self, name: str, now_ms: int) -> None:
        """Request metadata because a partition has no leader, or because its topic was forgotten.

        A topic can be forgotten just before a thread opens a batch for it.
        """
        self._router.metadata.expire()
        if not self._accumulator.topics[name].partitions:
            self.want(name, now_ms)

    def poll(self, now_ms: int, *, changed: bool) -> None:
        """Do the work that is due.

        Args:
            now_ms: the time.
            changed: whether the metadata may have changed.
        """
        if changed:
            for name in list(self._missing):
                self._look(name, now_ms)
            self._resize()
        if self._idle_check_ms is not None and now_ms >= self._idle_check_ms:
            self._forget_idle(now_ms)

    def due_ms(self) -> int | None:
        """Return when to poll again if nothing happens before then."""
        return self._idle_check_ms

    def expire(self, record: Held, now_ms: int) -> None:
        """Fail a record whose topic or partition is still unknown at its deadline."""
        self.abandon(record, self._late(record), now_ms)

    def _late(self, record: Held) -> KafkaWireError:
        """Return the error for a record that has reached its deadline."""
        name, metadata = record.topic, self._router.metadata
        missing = self._missing.get(name)
        cause = (None if missing is None else missing.error) or self._router.trouble()
        limit = "{}={}".format(*self._options.topic_limit)
        what, absence = f"topic {name}", ""
        if self._accumulator.topics[name].partitions and record.partition is not None:
            what, absence = f"partition {name}-{record.partition}", self._absence(name, record.partition)
            code = metadata.errors.get(name)
            cause = cause or (None if code is None else BrokerError(code, f"topic {name}"))
        if absence and cause is None and metadata.refreshed_ms >= record.created_ms:
            return LocalProtocolError(f"{absence}, even after {limit}")
        reason = f"{cause or 'no broker has responded'}{self._router.throttling(record.created_ms)}"
        error = DeliveryTimedOut(f"{what} is not known after {limit}: {reason}")
        error.__cause__ = cause
        return error

    def _absence(self, name: str, number: int) -> str:
        """Describe which partitions a topic has if it lacks a given one; empty if the topic has it or is unknown."""
        absence = self._router.metadata.absence(TopicPartition(name, number))
        return absence and f"{absence}, not {number}"

    def abandon(self, record: Held, error: KafkaWireError, now_ms: int) -> None:
        """Fail a record, and forget its topic if no other record waits for the topic."""
        self._give_up(record, error, now_ms)
        if record.topic in self._missing and not self._accumulator.topics[record.topic].holds:
            self._forget(record.topic)

    def _look(self, name: str, now_ms: int) -> None:
        """Place a topic's records if the topic is known, or fail them if it never will be."""
        metadata, accumulator = self._router.metadata, self._accumulator
        topic = accumulator.topics[name]
        known = metadata.topics.get(name)
        if known is not None and known.partitions:
            if self._missing.pop(name).is_reported:
                logger.info("topic %s is known now", name)
            self._place(topic, len(known.partitions))
            return
        code = metadata.errors.get(name)
        if code is None:
            return
        error = BrokerError(code, f"topic {name}")
        if not error.retriable:
            topic.gather()
            for record in list(topic.held):
                self._give_up(record, error, now_ms)
            self._forget(name)
            return
        missing = self._missing[name]
        if missing.error is None:
            missing.refreshed_ms = metadata.refreshed_ms
        if missing.error is None or missing.error.code != code:
            # This is done once for all waiting records, because comparing names takes a while.
            missing.error = BrokerError(code, f"topic {name}{self._near(name)}")
        if not missing.is_reported and metadata.refreshed_ms - missing.refreshed_ms >= _REPORTED_AFTER_MS:
            missing.is_reported = True
            logger.warning("%s; its records wait for up to %s=%d", missing.error, *self._options.topic_limit)

    def _near(self, name: str) -> str:
        """Suggest a similar topic as part of a sentence; empty if no known topic has a similar name."""
        near = nearest(name, (each for each in self._router.metadata.topics if each != name))
        return f" (did you mean {near[0]}?)" if near else ""

    def _place(self, topic: ProducerTopic, count: int) -> None:
        """Place the records of a topic; those for missing partitions wait while the partitions are looked up again."""
        self._accumulator.place_held(topic, count, self._moved, self._ended)
        if topic.holds:
            self._confirm(topic.name)

    def _confirm(self, name: str) -> None:
        """Ask for the topic's current number of partitions until each waiting record is placed or has failed.

        The broker that answers may not know a new partition yet. As for an unknown topic, the question is repeated with
        every metadata refresh.
        """
        if name not in self._doubtful:
            self._doubtful.add(name)
            self._router.refresh(partial(self._confirmed, name))

    def _confirmed(self, name: str, error: KafkaWireError | None) -> None:
        self._doubtful.discard(name)
        topic, known = self._accumulator.topics.get(name), self._router.metadata.topics.get(name)
        is_over = topic is None or not topic.holds or not topic.partitions
        if topic is None or is_over or (error is not None and not (error.retriable or is_refusal(error))):
            self._lacking.pop(name, None)
            return
        if error is None and known is not None and len(known.partitions) not in (0, topic.partitions):
            self._place(topic, len(known.partitions))
        else:
            self._confirm(name)
        if error is None:
            self._doubt(topic)

    def _doubt(self, topic: ProducerTopic) -> None:
        """Log once that records are waiting for a missing partition, and fail records that have waited too long."""
        now_ms, limit_ms = int(self._router.metadata.refreshed_ms), self._options.topic_limit[1]
        topic.gather()
        for record in tuple(topic.held):
            absence = "" if record.partition is None else self._absence(topic.name, record.partition)
            if not absence:
                return
            if topic.name not in self._lacking:
                logger.warning("%s; such records wait for up to %d ms", absence, min(limit_ms, ABSENT_MS))
            since_ms = max(self._lacking.setdefault(topic.name, now_ms), record.created_ms)
            if now_ms - since_ms < ABSENT_MS:
                return
            self._give_up(record, LocalProtocolError(f"{absence}, even after {now_ms - since_ms} ms"), now_ms)

    def _give_up(self, record: Held, error: KafkaWireError, now_ms: int) -> None:
        outcome = record.outcome
        if outcome is not None and not outcome.done:
            self._accumulator.give_up_held(record, error)
            if not isinstance(error, TransactionAborted):
                self._lines.error(("failed", record.topic), now_ms, "not stored: %s", error)
            self._ended(outcome)

    def _forget(self, name: str) -> None:
        self._missing.pop(name, None)
        self._router.metadata.drop(name)
        self._accumulator.forget(name)

    def _resize(self) -> None:
        """Adopt the current number of partitions of each topic, which can grow, or shrink if the topic is recreated."""
        topics = self._router.metadata.topics
        for name, topic in list(self._accumulator.topics.items()):  # other threads add topics
            known = topics.get(name)
            count = 0 if known is None else len(known.partitions)
            if topic.partitions and count and count != topic.partitions:
                self._place(topic, count)

    def _forget_idle(self, now_ms: int) -> None:
        """Stop looking up topics that have been idle for a long time."""
        idle_ms = self._options.metadata_max_idle_ms
        for name, topic in list(self._accumulator.topics.items()):
            if now_ms - topic.used_ms >= idle_ms and _is_empty(topic):
                self._forget(name)
        self._idle_check_ms = now_ms + idle_ms if self._accumulator.topics else None


def _is_empty(topic: ProducerTopic) -> bool:
    return not topic.holds and not any(queue.load for queue in topic.queues.values())
