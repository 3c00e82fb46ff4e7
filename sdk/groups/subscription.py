"""The subscription of a member: topics by name, topics that match a pattern, or all topics that do not match it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from kafkawire.sdk.errors import ConfigurationError

if TYPE_CHECKING:
    from kafkawire.sdk.routing.metadata import Metadata

__all__ = ["Subscription"]


class Subscription:
    """A subscription by names or by a pattern.

    Args:
        names: the names of the topics; empty if there is a pattern.
        pattern: a regular expression that the whole name of a topic must match; None if there are names. A coordinator
            that matches names itself (KIP-848) uses RE2/J syntax.
        excludes: whether to read all topics except the matching ones.

    Raises:
        ConfigurationError: neither names nor a pattern is given, or both are.
    """

    def __init__(self, names: Iterable[str] = (), pattern: str | None = None, *, excludes: bool = False) -> None:
        self.names = frozenset(names)
        self.pattern = pattern
        self.excludes = excludes
        if bool(self.names) == (pattern is not None):
            raise ConfigurationError("topics", sorted(self.names), "expected topic names or a pattern")

    def __repr__(self) -> str:
        if self.pattern is None:
            return ", ".join(sorted(self.names))
        return f"all but pattern {self.pattern}" if self.excludes else f"pattern {self.pattern}"

    @property
    def option(self) -> str:
        """The name of the argument that specified the pattern."""
        return "excluded_pattern" if self.excludes else "pattern"

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        assert self.pattern is not None
        try:
            return re.compile(self.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ConfigurationError(self.option, self.pattern, str(error)) from error

    def topics(self, metadata: Metadata) -> frozenset[str]:
        """Return the named topics, or the known topics that the pattern selects, without Kafka's internal topics.

        Raises:
            ConfigurationError: the pattern is not a regular expression.
        """
        if self.pattern is None:
            return self.names
        regex = self._regex
        known = [name for name, topic in metadata.topics.items() if not topic.is_internal]
        return frozenset(name for name in known if (regex.fullmatch(name) is None) == self.excludes)

    def check(self) -> None:
        """Reject a pattern that only a coordinator might accept, while still on the user's side.

        Raises:
            ConfigurationError: the pattern is not a regular expression.
        """
        if self.pattern is not None:
            _ = self._regex

    def keep_known(self, metadata: Metadata) -> None:
        """Keep the metadata of the named topics up to date; for a pattern, that of all topics."""
        metadata.wanted = None if self.pattern is not None else set(self.names)
