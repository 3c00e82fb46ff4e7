"""Regular expressions for topic names, matched in time that is linear in the length of the name.

`re` may take exponential time, which would block the broker. This module instead follows all states that are possible
after each character (Thompson's construction). There can still be thousands of states for each character in a name, so
names are matched in slices with a limited number of steps.

Source: `Utils.throwIfRegularExpressionIsInvalid`, `TopicRegexResolver` in Apache Kafka.
"""

from __future__ import annotations

import string
from collections.abc import Generator, Iterable
from typing import Final

from kafkawire.reference_broker.patterns.pattern_characters import TOPIC_CHARACTERS, Characters
from kafkawire.reference_broker.patterns.pattern_syntax import (
    BEGIN_LINE,
    BEGIN_TEXT,
    END_LINE,
    END_TEXT,
    NO_WORD_BOUNDARY,
    WORD_BOUNDARY,
    Choice,
    Condition,
    Node,
    OneOf,
    PatternError,
    Repeat,
    Sequence,
    parse,
)
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["LENGTH_MAX", "SLICE_STEPS", "STATES_MAX", "TopicPattern"]

#: Maximum number of states of one expression: enough for a few of the longest repetitions, like `a{1000}` or
#: `a{0,1000}`.
STATES_MAX: Final = 3_000

#: Maximum length of one expression, since even an expression with few states is parsed in a single step.
LENGTH_MAX: Final = 10_000

#: Steps in a slice: each state, character and name counts as one. A slice takes a few milliseconds.
SLICE_STEPS: Final = 10_000

#: Maximum total number of states in the sets that are cached with their successors.
_REMEMBERED_MAX: Final = 20_000

#: Characters that form words for `\b`.
_WORD: Final = frozenset(string.ascii_letters + string.digits + "_")

#: The state in which the whole name has matched.
_END = 0


class TopicPattern:
    """A regular expression for whole names.

    Args:
        text: the expression.
        characters: the characters in names.

    Raises:
        BrokerError: INVALID_REGULAR_EXPRESSION.
    """

    def __init__(self, text: str, characters: Characters = TOPIC_CHARACTERS) -> None:
        self._characters = characters
        #: For each state, the character set of its transitions, and their targets; None means a transition without a
        #: character.
        self._sets: list[int | None] = [None]
        self._next: list[tuple[int, ...]] = [()]
        #: The condition of a state's transitions.
        self._conditions: dict[int, int] = {}
        self._successors: dict[tuple[frozenset[int], str, int], frozenset[int]] = {}
        #: The distinct sets of states; equal sets share one object, since comparing them takes time.
        self._known: dict[frozenset[int], frozenset[int]] = {}
        self._remembered = 0
        self._steps = 0
        try:
            if len(text) > LENGTH_MAX:
                raise PatternError(f"it has {len(text)} characters; the limit is {LENGTH_MAX}")
            self._start = self._part(parse(text, characters), _END)
        except PatternError as error:
            shown = text if len(text) <= LENGTH_MAX else f"{text[:50]}…"
            reason = f"SubscribedTopicRegex `{shown}` is not a valid regular expression: {error}."
            raise BrokerError(ErrorCode.INVALID_REGULAR_EXPRESSION, reason) from None

    def matches(self, name: str) -> bool:
        """Return whether a whole name matches."""
        matching = self.matching((name,))
        while True:
            try:
                next(matching)
            except StopIteration as end:
                return name in end.value

    def matching(self, names: Iterable[str]) -> Generator[None, None, frozenset[str]]:
        """Match names in slices: yield after each slice, and return the names that match."""
        found = []
        self._steps = 0
        firsts: dict[int, frozenset[int]] = {}
        for name in names:
            self._steps += 1
            holds = self._between("", name[:1])
            if holds not in firsts:
                first = self._closure((self._start,), holds)
                firsts[holds] = self._known.setdefault(first, first)
            states = firsts[holds]
            for place, character in enumerate(name):
                if self._steps >= SLICE_STEPS:
                    yield
                    self._steps = 0
                states = self._step(states, character, self._between(character, name[place + 1 : place + 2]))
                if not states:
                    break
            if _END in states:
                found.append(name)
        return frozenset(found)

    # Following states.

    def _between(self, before: str, after: str) -> int:
        """Return which of the conditions in this expression hold between two characters."""
        if not self._conditions:
            return 0
        holds = NO_WORD_BOUNDARY if (before in _WORD) == (after in _WORD) else WORD_BOUNDARY
        if not before:
            holds |= BEGIN_TEXT
        if not after:
            holds |= END_TEXT
        if before in ("", "\n"):
            holds |= BEGIN_LINE
        if after in ("", "\n"):
            holds |= END_LINE
        return holds

    def _step(self, states: frozenset[int], character: str, holds: int) -> frozenset[int]:
        self._steps += 1
        key = states, character, holds
        known = self._successors.get(key)
        if known is not None:
            return known
        self._steps += len(states)
        bit = self._characters.bit(character)
        after = [state for each in states if bit & (self._sets[each] or 0) for state in self._next[each]]
        found = self._closure(after, holds)
        if self._remembered < _REMEMBERED_MAX:
            self._remembered += 1 + len(states) + len(found)
            found = self._known.setdefault(found, found)
            self._successors[key] = found
        return found

    def _closure(self, states: Iterable[int], holds: int) -> frozenset[int]:
        """Return the states that can be reached from the given ones without consuming a character."""
        found: set[int] = set()
        open_ = list(states)
        while open_:
            self._steps += 1
            state = open_.pop()
            if state in found or self._conditions.get(state, 0) & ~holds:
                continue
            found.add(state)
            if self._sets[state] is None:
                open_ += self._next[state]
        return frozenset(found)

    # Building states, from the end to the beginning.

    def _state(self, characters: int | None, *following: int) -> int:
        if len(self._next) > STATES_MAX:
            raise PatternError(f"it needs too many states; the limit is {STATES_MAX}")
        self._sets.append(characters)
        self._next.append(following)
        return len(self._next) - 1

    def _part(self, node: Node, following: int) -> int:
        """Build the states for a part, and return its first state."""
        match node:
            case OneOf(bits):
                return self._state(bits, following)
            case Condition(holds):
                state = self._state(None, following)
                self._conditions[state] = holds
                return state
            case Sequence(parts):
                for part in reversed(parts):
                    following = self._part(part, following)
                return following
            case Choice(ways):
                return self._state(None, *[self._part(way, following) for way in ways])
            case Repeat(part, least, most):
                return self._repeat(part, least, most, following)

    def _repeat(self, part: Node, least: int, most: int | None, following: int) -> int:
        if most is None:
            again = self._state(None, following)
            self._next[again] = (self._part(part, again), following)
            following = again
        else:
            end = following
            for _ in range(most - least):
                following = self._state(None, self._part(part, following), end)
        for _ in range(least):
            following = self._part(part, following)
        return following
