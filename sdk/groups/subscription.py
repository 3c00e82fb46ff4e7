"""The subscription of a member: topics by name, or all topics whose names match a pattern."""

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

    Raises:
        ConfigurationError: neither or both are given.
    """

    def __init__(self, names: Iterable[str] = (), pattern: str | None = None) -> None:
        self.names = frozenset(names)
        self.pattern = pattern
        if bool(self.names) == (pattern is not None):
            raise ConfigurationError("topics", sorted(self.names), "expected names of topics, or a pattern")

    def __repr__(self) -> str:
        return ", ".join(sorted(self.names)) if self.pattern is None else f"pattern {self.pattern}"

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        assert self.pattern is not None
        try:
            return re.compile(self.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ConfigurationError("pattern", self.pattern, str(error)) from error

    def topics(self, metadata: Metadata) -> frozenset[str]:
        """Return the named topics, or the known ones that match; Kafka's internal topics never match.

        Raises:
            ConfigurationError: the pattern is not a regular expression.
        """
        if self.pattern is None:
            return self.names
        regex = self._regex
        known = metadata.topics.items()
        return frozenset(name for name, topic in known if not topic.is_internal and regex.fullmatch(name))

    def check(self) -> None:
        """Reject, on the user's side, a pattern that only a coordinator might accept.

        Raises:
            ConfigurationError: the pattern is not a regular expression.
        """
        if self.pattern is not None:
            _ = self._regex

    def keep_known(self, metadata: Metadata) -> None:
        """Keep the metadata of the topics up to date, or of all topics for a pattern."""
        metadata.wanted = None if self.pattern is not None else set(self.names)
