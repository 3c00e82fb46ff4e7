"""Topic filters: an expression that names the topics to read (white list) or those not to read (black list).

A member that registers in ZooKeeper publishes its filter, and all members apply it, so they must interpret it
identically. An expression has Java's syntax and is compiled with Python's `re`, which supports the common features.
Syntax that Python lacks (`\\Q…\\E`, `\\p{Alpha}`, `(?<name>…)`) is rejected, as are unions and intersections of
character classes, which Python interprets differently.

Source: `TopicFilter`, `Whitelist`, `Blacklist` in Apache Kafka 1.1.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.groups.subscription import Subscription

__all__ = ["FilterKind", "TopicFilter", "filter_of"]

#: Longer expressions are rejected: they come from other programs, and every topic is matched against them.
EXPRESSION_CHARACTERS_MAX: Final = 10_000

#: Java strips all characters up to and including the space.
_BLANKS: Final = "".join(map(chr, range(ord(" ") + 1)))
_QUOTES: Final = "\"'"

_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state"})

_ESCAPE: Final = re.compile(r"\\.", re.DOTALL)

#: In an expression without escapes, a character class that contains another one or an intersection. A single expression
#: for both would need possessive quantifiers, which `re` sometimes matches wrongly up to Python 3.11.4.
_NESTED_CLASS: Final = re.compile(r"\[[^\]]*(?:\[|&&)")


class FilterKind(Enum):
    """What an expression means; the value is the word in a registration."""

    WHITE_LIST = "white_list"
    BLACK_LIST = "black_list"


class TopicFilter:
    """A topic filter.

    Args:
        expression: a regular expression that the whole name of a topic must match. A comma separates alternatives;
            spaces, and quotes at both ends, are ignored, since properties files may contain them.
        kind: whether to read the matching topics or all others.
        excludes_internal: whether Kafka's own topics are always left out.

    Attributes:
        expression: the expression in the form that members publish.
        kind: as given.

    Raises:
        ConfigurationError: the expression is too long, or its syntax is not supported.
    """

    def __init__(
        self, expression: str, kind: FilterKind = FilterKind.WHITE_LIST, *, excludes_internal: bool = True
    ) -> None:
        cleaned = expression.strip(_BLANKS).replace(",", "|").replace(" ", "")
        self.expression: Final = cleaned.lstrip(_QUOTES).rstrip(_QUOTES)
        self.kind: Final = kind
        self._excludes_internal = excludes_internal
        if len(expression) > EXPRESSION_CHARACTERS_MAX:
            reason = f"has {len(expression)} characters, but at most {EXPRESSION_CHARACTERS_MAX} are allowed"
            raise ConfigurationError(kind.value, f"{expression[:60]}…", reason)
        if _NESTED_CLASS.search(_ESCAPE.sub("_", self.expression)):
            raise ConfigurationError(kind.value, self.expression, "a character class must not contain [ or &&")
        try:
            self._regex = re.compile(self.expression, re.ASCII)
        except (re.error, OverflowError, RecursionError) as error:
            raise ConfigurationError(kind.value, self.expression, str(error)) from error

    def __repr__(self) -> str:
        return f"{self.kind.value} {self.expression}"

    def accepts(self, topic: str) -> bool:
        """Return whether to read a topic."""
        if self._excludes_internal and topic in _INTERNAL:
            return False
        return (self._regex.fullmatch(topic) is not None) == (self.kind is FilterKind.WHITE_LIST)


def filter_of(subscription: Subscription, *, excludes_internal: bool = True) -> TopicFilter | None:
    """Return the filter of a subscription; None if the subscription lists names.

    Raises:
        ConfigurationError: the pattern is too long, or its syntax is not supported.
    """
    if subscription.pattern is None:
        return None
    kind = FilterKind.BLACK_LIST if subscription.excludes else FilterKind.WHITE_LIST
    try:
        return TopicFilter(subscription.pattern, kind, excludes_internal=excludes_internal)
    except ConfigurationError as error:
        raise ConfigurationError(subscription.option, subscription.pattern, error.reason) from error
