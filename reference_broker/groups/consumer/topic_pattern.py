"""Regular expressions over topic names, matched in time that grows with the name and never explodes.

`re` may try exponentially many ways to match, and nothing else of the broker runs meanwhile. It only parses here; the
states that are possible after each character are followed together (Thompson's construction). That still takes a
thousand states for each character of a name, so names are matched in slices of counted steps. What RE2 leaves out,
which Apache Kafka uses, is refused: references back, and looking around.

Source: `Utils.throwIfRegularExpressionIsInvalid`, `TopicRegexResolver` in Apache Kafka.
"""

from __future__ import annotations

import re
import string
from collections.abc import Generator, Iterable
from re import _constants as node  # type: ignore[attr-defined]  # not in the stubs
from re import _parser as parser  # type: ignore[attr-defined]  # not in the stubs
from typing import Any, Final

from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["LENGTH_MAX", "SLICE_STEPS", "STATES_MAX", "TopicPattern"]

#: States of one expression, as in RE2: `a{1000}` is the longest repetition.
STATES_MAX: Final = 1_000

#: Characters of one expression: even one that needs few states has to be parsed at once.
LENGTH_MAX: Final = 10 * STATES_MAX

#: Steps of a slice: states looked at, characters and names. It takes a few milliseconds.
SLICE_STEPS: Final = 10_000

#: States in the sets that are remembered with what follows them.
_REMEMBERED_MAX: Final = 20 * STATES_MAX

#: What topic names consist of; nothing else has to be told apart.
_ALPHABET: Final = frozenset(string.ascii_letters + string.digits + "._-")

_DIGITS: Final = frozenset(string.digits)
_WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
_SPACE: Final = frozenset("\t\n\f\r ")

#: The characters of a category, or those that are not in it.
_CATEGORIES: Final = {
    node.CATEGORY_DIGIT: (_DIGITS, False),
    node.CATEGORY_NOT_DIGIT: (_DIGITS, True),
    node.CATEGORY_WORD: (_WORD, False),
    node.CATEGORY_NOT_WORD: (_WORD, True),
    node.CATEGORY_SPACE: (_SPACE, False),
    node.CATEGORY_NOT_SPACE: (_SPACE, True),
}

_BEGINNINGS: Final = (node.AT_BEGINNING, node.AT_BEGINNING_STRING)
_ENDS: Final = (node.AT_END, node.AT_END_STRING)

#: The state in which the whole name has matched.
_END = 0


class TopicPattern:
    """A regular expression that whole names match, or not.

    Args:
        text: the expression.
        alphabet: the characters that names consist of.

    Raises:
        BrokerError: INVALID_REGULAR_EXPRESSION.
    """

    def __init__(self, text: str, alphabet: frozenset[str] = _ALPHABET) -> None:
        self._text = text
        self._alphabet = alphabet
        #: A bit for each character that names consist of: a set of them is one small number.
        self._bits = {character: 1 << place for place, character in enumerate(sorted(alphabet))}
        #: By state: the characters that lead on, and where they lead; None leads on without a character.
        self._characters: list[int | None] = [None]
        self._next: list[tuple[int, ...]] = [()]
        #: States that hold only at the beginning, or only at the end, of a name.
        self._anchors: dict[int, bool] = {}
        self._successors: dict[tuple[frozenset[int], str, bool], frozenset[int]] = {}
        self._remembered = 0
        self._steps = 0
        if len(text) > LENGTH_MAX:
            self._text = f"{text[:50]}…"
            raise self._invalid(f"it has {len(text)} characters, more than {LENGTH_MAX}")
        try:
            parsed = parser.parse(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise self._invalid(str(error)) from None
        self._ignores_case = bool(parsed.state.flags & re.IGNORECASE)
        self._matches_lines = bool(parsed.state.flags & re.DOTALL)
        if parsed.state.flags & (re.MULTILINE | re.VERBOSE | re.LOCALE | re.ASCII):
            raise self._invalid("only the flags i and s are allowed")
        try:
            self._start = self._sequence(parsed, _END)
        except RecursionError:
            raise self._invalid("it is nested too deep") from None

    def matches(self, name: str) -> bool:
        """Return whether a whole name matches."""
        matching = self.matching((name,))
        while True:
            try:
                next(matching)
            except StopIteration as end:
                return name in end.value

    def matching(self, names: Iterable[str]) -> Generator[None, None, frozenset[str]]:
        """Match names in slices: yield after each, and return the names that match."""
        found = []
        self._steps = 0
        first = self._closure((self._start,), is_start=True, is_end=False)
        for name in names:
            self._steps += 1
            states = first if name else self._closure((self._start,), is_start=True, is_end=True)
            last = len(name) - 1
            for place, character in enumerate(name):
                if self._steps >= SLICE_STEPS:
                    yield
                    self._steps = 0
                states = self._step(states, character, place == last)
                if not states:
                    break
            if _END in states:
                found.append(name)
        return frozenset(found)

    # Following states.

    def _step(self, states: frozenset[int], character: str, is_end: bool) -> frozenset[int]:
        self._steps += 1
        key = states, character, is_end
        known = self._successors.get(key)
        if known is not None:
            return known
        self._steps += len(states)
        bit = self._bits.get(character, 0)
        after = [state for each in states if bit & (self._characters[each] or 0) for state in self._next[each]]
        found = self._closure(after, is_start=False, is_end=is_end)
        if self._remembered < _REMEMBERED_MAX:
            self._remembered += 1 + len(states) + len(found)
            self._successors[key] = found
        return found

    def _closure(self, states: Iterable[int], *, is_start: bool, is_end: bool) -> frozenset[int]:
        """Return what can be reached from states without a character."""
        found: set[int] = set()
        open_ = list(states)
        while open_:
            self._steps += 1
            state = open_.pop()
            anchor = self._anchors.get(state)
            if state in found or (anchor is not None and not (is_start if anchor else is_end)):
                continue
            found.add(state)
            if self._characters[state] is None:
                open_ += self._next[state]
        return frozenset(found)

    # Making states, from the end to the beginning.

    def _state(self, characters: int | None, *following: int) -> int:
        if len(self._next) > STATES_MAX:
            raise self._invalid(f"it needs more than {STATES_MAX} states")
        self._characters.append(characters)
        self._next.append(following)
        return len(self._next) - 1

    def _sequence(self, parts: Any, following: int) -> int:
        for kind, argument in reversed(list(parts)):
            following = self._part(kind, argument, following)
        return following

    def _part(self, kind: Any, argument: Any, following: int) -> int:
        if kind in (node.LITERAL, node.NOT_LITERAL, node.ANY, node.IN):
            return self._state(self._character_set(kind, argument), following)
        if kind is node.SUBPATTERN:
            _, added, removed, inner = argument
            if added or removed:
                raise self._invalid("flags are allowed at its beginning only")
            return self._sequence(inner, following)
        if kind is node.BRANCH:
            return self._state(None, *[self._sequence(branch, following) for branch in argument[1]])
        if kind in (node.MAX_REPEAT, node.MIN_REPEAT):
            least, most, inner = argument
            return self._repeat(least, most, inner, following)
        if kind is node.AT and argument in _BEGINNINGS + _ENDS:
            state = self._state(None, following)
            self._anchors[state] = argument in _BEGINNINGS
            return state
        raise self._invalid("invalid or unsupported Perl syntax")

    def _character_set(self, kind: Any, argument: Any) -> int:
        """Return the characters of names that a part stands for."""
        if kind is node.ANY:
            return self._set(self._alphabet if self._matches_lines else self._alphabet - frozenset("\n"))
        is_negated = kind is node.NOT_LITERAL
        found: set[str] = set()
        for item, value in argument if kind is node.IN else [(node.LITERAL, argument)]:
            if item is node.NEGATE:
                is_negated = True
            elif item is node.LITERAL:
                found.add(chr(value))
            elif item is node.RANGE:
                found |= {each for each in self._alphabet if value[0] <= ord(each) <= value[1]}
            else:
                category, is_other = _CATEGORIES[value]
                found |= self._alphabet - category if is_other else category
        if self._ignores_case:
            found |= {each for letter in found for each in (letter.lower(), letter.upper())}
        return self._set(self._alphabet - found if is_negated else self._alphabet & found)

    def _set(self, characters: Iterable[str]) -> int:
        return sum(self._bits[character] for character in characters)

    def _repeat(self, least: int, most: int, inner: Any, following: int) -> int:
        if least > STATES_MAX or (most is not node.MAXREPEAT and most > STATES_MAX):
            raise self._invalid(f"it repeats more than {STATES_MAX} times")
        if most is node.MAXREPEAT:
            again = self._state(None, following)
            self._next[again] = (self._sequence(inner, again), following)
            following = again
        else:
            end = following
            for _ in range(most - least):
                following = self._state(None, self._sequence(inner, following), end)
        for _ in range(least):
            before, following = following, self._sequence(inner, following)
            if following == before:
                break  # nothing, as often as one likes, is nothing: repetitions of it would multiply
        return following

    def _invalid(self, reason: str) -> BrokerError:
        text = f"SubscribedTopicRegex `{self._text}` is not a valid regular expression: {reason}."
        return BrokerError(ErrorCode.INVALID_REGULAR_EXPRESSION, text)
