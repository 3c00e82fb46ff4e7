"""Resolve the regular expressions of consumer groups to topics, in the background, and store the results in records.

If a heartbeat finds an unresolved expression in its group, or one resolved before a topic was added, all of the group's
expressions are resolved, to topics that the member with the heartbeat may describe; at most one resolution per group is
running. A separate operation then writes the records and, if topics have changed, the next group epoch. Until then, the
previous result applies.

Source: `GroupMetadataManager.maybeUpdateRegularExpressions`, `handleRegularExpressionsResult` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator, Mapping
from functools import partial

from kafkawire.reference_broker.coordinators.shard import ShardTimers
from kafkawire.reference_broker.groups.consumer.group import ConsumerGroup, Resolved, regexes_of, topics_of
from kafkawire.reference_broker.groups.consumer.records import group_value_record, regex_record
from kafkawire.reference_broker.groups.outbox import Outbox
from kafkawire.reference_broker.groups.requests import GroupLimits
from kafkawire.reference_broker.groups.topics import Topics, metadata_hash
from kafkawire.reference_broker.patterns.topic_pattern import TopicPattern
from kafkawire.reference_broker.work.computations import Computations
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["REFRESH_PAUSE_MS", "Resolution"]

#: Minimum time between two resolutions of a group, regardless of what has changed.
REFRESH_PAUSE_MS = 10_000

_log = logging.getLogger("kafkawire.broker")

#: Maximum total length of the names that a group's expressions match; a batch in the offsets topic cannot hold more.
_NAMES_CHARACTERS_MAX = 1024 * 1024

#: The number of topics of which a member may be told, decided in a few milliseconds.
_NAMES_IN_SLICE = 1_000

#: The topics matched by each expression; None if the expression is invalid.
_Found = dict[str, frozenset[str] | None]


class Resolution:
    """The expressions of a shard's groups.

    Args:
        groups: the groups, keyed by id; only replaying records changes them.
        timers: the shard's timers.
        computations: runs the matching of topic names.
        outbox: receives the records.
        limits: see `GroupLimits`.
        topics: see `Topics`.
    """

    def __init__(
        self,
        groups: Mapping[str, ConsumerGroup],
        timers: ShardTimers,
        computations: Computations,
        outbox: Outbox,
        limits: GroupLimits,
        topics: Topics,
    ) -> None:
        self._groups = groups
        self._timers = timers
        self._computations = computations
        self._outbox = outbox
        self._limits = limits
        self._topics = topics
        #: A token for each group's current resolution, keyed by group id.
        self._running: dict[str, object] = {}
        #: The time at which writing a resolution last failed, keyed by group id.
        self._failed_ms: dict[str, int] = {}
        self._base = 0
        self._names: tuple[int, tuple[str, ...]] = (-1, ())
        self._lines = LogLimit(_log)

    @property
    def version(self) -> int:
        """A version that increases with every new topic."""
        return self._base + self._topics.came

    def loaded(self) -> None:
        """Continue from replayed records, since whose writing topics may have been added."""
        versions = [each.version for group in self._groups.values() for each in group.resolved.values()]
        self._base = max(versions, default=0) + 1 - self._topics.came

    def cancel(self) -> None:
        """Cancel all resolutions."""
        self._running.clear()

    def forget(self, group_id: str) -> None:
        """Drop the state of a removed group."""
        self._running.pop(group_id, None)
        self._failed_ms.pop(group_id, None)

    def begin_if_stale(
        self,
        group: ConsumerGroup,
        regexes: Collection[str],
        now_ms: int,
        may_describe: Callable[[str], bool] | None = None,
    ) -> None:
        """Start resolving the expressions of a group's members, unless the known results are current.

        Args:
            group: the group.
            regexes: the expressions.
            now_ms: the current time.
            may_describe: tells whether the members may know of a topic; None if they may know of all.
        """
        if regexes and group.group_id not in self._running and self._is_stale(group, regexes, now_ms):
            run = self._running[group.group_id] = object()
            self._computations.add(
                self._resolve(group.group_id, sorted(regexes), now_ms, may_describe),
                lambda: self._running.get(group.group_id) is run,
                partial(self._resolved, group.group_id, run, self.version),
                now_ms,
            )

    def _is_stale(self, group: ConsumerGroup, regexes: Collection[str], now_ms: int) -> bool:
        known = group.resolved.values()
        last_ms = max((each.resolved_ms for each in known), default=None)
        failed_ms = self._failed_ms.get(group.group_id)
        # If the time is in the future, the clock has been set back.
        if any(each is not None and 0 <= now_ms - each <= REFRESH_PAUSE_MS for each in (last_ms, failed_ms)):
            return False
        return (
            last_ms is None
            or any(regex not in group.resolved for regex in regexes)
            or min(each.version for each in known) < self.version
            or now_ms > last_ms + self._limits.group_consumer_regex_refresh_interval_ms
        )

    def _resolve(
        self,
        group_id: str,
        regexes: Collection[str],
        now_ms: int,
        may_describe: Callable[[str], bool] | None,
    ) -> Generator[None, None, _Found | None]:
        """Match names in small steps; return the result, or None if it is too large."""
        found: _Found = {}
        room = _NAMES_CHARACTERS_MAX
        names = self._all_names()
        for regex in regexes:
            try:
                pattern = TopicPattern(regex)
            except BrokerError as error:
                # Apache Kafka, which supports more expressions, has accepted this one.
                text = "a loaded expression of the group %s cannot be resolved: %s"
                self._lines.warning(group_id, now_ms, text, group_id, error.detail)
                found[regex] = None
                yield
                continue
            matching = pattern.matching(names)
            while regex not in found and self._is_wanted(group_id, regex):
                try:
                    next(matching)
                except StopIteration as end:
                    found[regex] = matched = yield from _describable(end.value, may_describe)
                    room -= sum(len(name) + 1 for name in matched)
                if room < 0:
                    return None
                yield
        return found

    def _is_wanted(self, group_id: str, regex: str) -> bool:
        """Return whether a member of a group uses an expression; True if the group is not known yet."""
        group = self._groups.get(group_id)
        return group is None or any(each == regex for _, each in group.subscriptions)

    def _all_names(self) -> tuple[str, ...]:
        """Return the names of all topics, shared by all resolutions until topics change."""
        if self._names[0] != self._topics.changes:
            self._names = self._topics.changes, tuple(self._topics)
        return self._names[1]

    def _resolved(self, group_id: str, run: object, version: int, found: _Found | None, now_ms: int) -> None:
        """Write the result as an operation of the shard, if the shard is still served."""
        if found is None:
            self._running.pop(group_id, None)
            self._fail(group_id, f"the names exceed the limit of {_NAMES_CHARACTERS_MAX} characters", now_ms)
            return
        self._timers.at(now_ms, partial(self._write, group_id, run, version, found))

    def _write(self, group_id: str, run: object, version: int, found: _Found, now_ms: int) -> None:
        if self._running.get(group_id) is not run:
            return
        del self._running[group_id]
        group = self._groups.get(group_id)
        if group is None:
            return

        def committed(error: BrokerError | None) -> None:
            # Other errors are reported by the log.
            if error is not None and error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
                self._fail(group_id, error.detail, now_ms)

        self._failed_ms.pop(group_id, None)
        self._outbox.on_committed(committed)
        after = dict(group.resolved)
        for regex in sorted(regexes_of(group.subscriptions)):
            if regex not in found:
                continue  # the expression was added in the meantime, or was unused for a while
            topics = found[regex]
            if topics is None:
                topics = after[regex].topics if regex in after else frozenset()
            after[regex] = Resolved(topics, version, now_ms)
            self._outbox.add(regex_record(group_id, regex, after[regex]))
        has_changed = any(
            (group.resolved[regex].topics if regex in group.resolved else frozenset()) != each.topics
            for regex, each in after.items()
        )
        new_hash = metadata_hash(topics_of(group.subscriptions, after), self._topics)
        if has_changed or new_hash != group.metadata_hash:
            self._outbox.add(group_value_record(group_id, group.epoch + 1, new_hash))
            group.looked_at = self._topics.changes, group.epoch + 1

    def _fail(self, group_id: str, reason: str, now_ms: int) -> None:
        """Record that a result could not be written, since an immediate retry would fail as well."""
        if group_id in self._groups:
            self._failed_ms[group_id] = now_ms
            text = "cannot write the topics matched by the expressions of the group %s: %s"
            self._lines.warning(group_id, now_ms, text, group_id, reason)


def _describable(
    names: frozenset[str], may_describe: Callable[[str], bool] | None
) -> Generator[None, None, frozenset[str]]:
    """Return the topics that a member may describe; yield after each slice."""
    if may_describe is None:
        return names
    kept = set()
    for number, name in enumerate(names, 1):
        if may_describe(name):
            kept.add(name)
        if not number % _NAMES_IN_SLICE:
            yield
    return frozenset(kept)
