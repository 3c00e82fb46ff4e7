"""Parse the regular expressions of Apache Kafka, with RE2/J's syntax, meaning and error texts.

Even RE2/J's rarer quirks are kept: a `{` that does not begin a repetition is literal but cannot be repeated, and a
repetition directly after another is refused unless flags or an empty quotation separate them. Greediness and captures
do not matter, because names are matched as a whole.

Source: `Parser` in RE2/J 1.8, compared by `tests/kafka/test_topic_patterns.py`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from kafkawire.reference_broker.patterns.pattern_characters import SCRIPTS, Characters

__all__ = [
    "BEGIN_LINE",
    "BEGIN_TEXT",
    "DEPTH_MAX",
    "END_LINE",
    "END_TEXT",
    "NO_WORD_BOUNDARY",
    "REPEAT_MAX",
    "WORD_BOUNDARY",
    "Choice",
    "Condition",
    "Node",
    "OneOf",
    "PatternError",
    "Repeat",
    "Sequence",
    "parse",
]

#: Maximum number of repetitions of a part, as in RE2/J.
REPEAT_MAX: Final = 1_000

#: Maximum nesting depth, since later steps recurse this deeply. RE2/J continues until its stack overflows.
DEPTH_MAX: Final = 200

#: Conditions that may hold between two characters in a name.
BEGIN_TEXT, END_TEXT, BEGIN_LINE, END_LINE, WORD_BOUNDARY, NO_WORD_BOUNDARY = (1 << place for place in range(6))

_LAST_CODE: Final = 0x10FFFF

#: `(?flags-flags)` or `(?flags-flags:`.
_FLAGS: Final = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_NAMED_GROUP: Final = re.compile(r"\(\?P?<")
_GROUP_NAME: Final = re.compile(r"[A-Za-z0-9_]+")

#: `{2}`, `{2,}` or `{2,3}`: numbers without leading zeros.
_COUNTED: Final = re.compile(r"\{(0|[1-9][0-9]*)(?:(,)(0|[1-9][0-9]*)?)?\}")

#: Maximum number of digits in a number; longer numbers are out of range.
_COUNT_DIGITS_MAX: Final = 8

_ESCAPE: Final = re.compile(
    r"\\(?:(?P<octal>[1-7][0-7]{1,2}|0[0-7]{0,2})|x(?P<hex>[0-9A-Fa-f]{2})|x\{(?P<braced>[0-9A-Fa-f]+)\}"
    r"|(?P<control>[afnrtv])|(?P<itself>[^0-9A-Za-z]))",
    re.DOTALL,
)
_CONTROLS: Final = dict(zip("afnrtv", "\a\f\n\r\t\v", strict=True))


#: Maximum number of letters whose case is checked for the classes in an expression; each takes 100 ns, without
#: interruption. For topic names, which use 52 letters, no expression within the length limit needs that many.
_CASES_MAX: Final = 300_000


class PatternError(ValueError):
    """An expression is invalid or unsupported; the text says why."""


class OneOf(NamedTuple):
    """Matches one character from a set."""

    bits: int
    depth: int = 1


class Condition(NamedTuple):
    """Matches the empty text where a condition, such as `BEGIN_TEXT`, holds."""

    holds: int
    depth: int = 1


class Sequence(NamedTuple):
    """Matches parts one after another; without parts, it matches the empty text."""

    parts: tuple[Node, ...]
    depth: int = 1


class Choice(NamedTuple):
    """Matches one of several alternatives, at most one of which matches the empty text."""

    ways: tuple[Node, ...]
    depth: int


class Repeat(NamedTuple):
    """Matches a repeated part; if the maximum is None, there is no limit."""

    part: Node
    least: int
    most: int | None
    depth: int


Node = OneOf | Condition | Sequence | Choice | Repeat

_NOTHING: Final = Sequence(())


class _Flags(NamedTuple):
    """The flags set by `(?ims)`."""

    ignores_case: bool = False
    has_lines: bool = False
    dot_is_all: bool = False


class _Group:
    """An open group: the alternatives before the last `|` and the parts after it."""

    def __init__(self, flags_after: _Flags) -> None:
        self.flags_after = flags_after
        self.ways: list[Node] = []
        self.parts: list[Node] = []


def parse(text: str, characters: Characters) -> Node:
    """Parse a regular expression.

    Args:
        text: the expression.
        characters: the characters in names.

    Raises:
        PatternError: the expression is refused.
    """
    return _Parser(text, characters).parse()


class _Parser:
    """Parses one expression from beginning to end; a list of open groups avoids recursion."""

    def __init__(self, text: str, characters: Characters) -> None:
        self._text = text
        self._at = 0
        self._looked_at = 0
        self._characters = characters
        self._flags = _Flags()
        self._groups = [_Group(self._flags)]
        self._names: set[str] = set()
        #: The last position at which a class such as `[:alpha:]` can end.
        self._last_class_end = text.rfind(":]")

    def parse(self) -> Node:
        was_repetition = False
        while self._at < len(self._text):
            character = self._text[self._at]
            was_repetition, is_after_one = False, was_repetition
            if character in "*+?{":
                was_repetition = True
                self._repetition(character, is_after_one)
            elif character == "\\":
                self._backslash()
            elif character == "[":
                self._groups[-1].parts.append(OneOf(self._class()))
            elif self._text.startswith("(?", self._at):
                self._flags_or_group()
            else:
                self._at += 1
                self._simple(character)
        if len(self._groups) > 1:
            raise PatternError("missing closing )")
        return self._closed(self._groups.pop())

    def _simple(self, character: str) -> None:
        group = self._groups[-1]
        if character == "(":
            self._groups.append(_Group(self._flags))
        elif character == ")":
            if len(self._groups) == 1:
                raise PatternError("missing opening (")
            self._flags = group.flags_after
            node = self._closed(self._groups.pop())
            self._groups[-1].parts.append(node)
        elif character == "|":
            group.ways.append(self._sequence(group.parts))
            group.parts = []
        elif character == "^":
            group.parts.append(Condition(BEGIN_LINE if self._flags.has_lines else BEGIN_TEXT))
        elif character == "$":
            group.parts.append(Condition(END_LINE if self._flags.has_lines else END_TEXT))
        elif character == ".":
            newline = 0 if self._flags.dot_is_all else self._characters.bit("\n")
            group.parts.append(OneOf(self._characters.all & ~newline))
        else:
            self._literal(character)

    def _literal(self, character: str) -> None:
        self._groups[-1].parts.append(OneOf(self._characters.bit(character, ignores_case=self._flags.ignores_case)))

    # Groups.

    def _flags_or_group(self) -> None:
        named = _NAMED_GROUP.match(self._text, self._at)
        if named:
            end = self._text.find(">", named.end())
            name = self._text[named.end() : end]
            if end < 0 or not _GROUP_NAME.fullmatch(name):
                raise PatternError("invalid named capture")
            if name in self._names:
                raise PatternError("duplicate capture group name")
            self._names.add(name)
            self._groups.append(_Group(self._flags))
            self._at = end + 1
            return
        found = _FLAGS.match(self._text, self._at)
        if not found:
            raise PatternError("invalid or unsupported Perl syntax")
        self._at = found.end()
        added, removed, end_character = found[1], found[2] or "", found[3]
        if end_character == ":":
            self._groups.append(_Group(self._flags))
        values = (
            (value or flag in added) and flag not in removed for flag, value in zip("ims", self._flags, strict=True)
        )
        self._flags = _Flags(*values)

    def _closed(self, group: _Group) -> Node:
        """Return the expression of a closed group."""
        ways = [*group.ways, self._sequence(group.parts)]
        kept = [way for way in ways if way is not _NOTHING]
        if len(kept) < len(ways):
            kept.append(_NOTHING)
        return kept[0] if len(kept) == 1 else Choice(tuple(kept), self._depth(kept))

    def _sequence(self, parts: list[Node]) -> Node:
        kept = [part for part in parts if part is not _NOTHING]
        if len(kept) == 1:
            return kept[0]
        return Sequence(tuple(kept), self._depth(kept)) if kept else _NOTHING

    def _depth(self, nodes: list[Node]) -> int:
        depth = 1 + max(node.depth for node in nodes)
        if depth > DEPTH_MAX:
            raise PatternError(f"it is nested too deeply; the limit is {DEPTH_MAX} levels")
        return depth

    # Repetitions.

    def _repetition(self, character: str, is_after_one: bool) -> None:
        least, most = (1 if character == "+" else 0), (1 if character == "?" else None)
        if character == "{":
            counted = _COUNTED.match(self._text, self._at)
            if not counted:
                self._at += 1
                self._literal(character)
                return
            least = self._count(counted[1])
            most = least if counted[2] is None else None if counted[3] is None else self._count(counted[3])
            if most is not None and most < least:
                raise PatternError("invalid repeat count")
            self._at = counted.end()
        else:
            self._at += 1
        if self._text.startswith("?", self._at):
            self._at += 1  # a lazy repetition, which is equivalent for a whole name
        parts = self._groups[-1].parts
        if is_after_one:
            raise PatternError("invalid nested repetition operator")
        if not parts:
            raise PatternError("missing argument to repetition operator")
        is_nothing = parts[-1] is _NOTHING or most == 0
        parts[-1] = _NOTHING if is_nothing else Repeat(parts[-1], least, most, self._depth(parts[-1:]))

    def _count(self, digits: str) -> int:
        if len(digits) > _COUNT_DIGITS_MAX or int(digits) > REPEAT_MAX:
            raise PatternError("invalid repeat count")
        return int(digits)

    # Escapes.

    def _backslash(self) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        parts = self._groups[-1].parts
        condition = {"A": BEGIN_TEXT, "z": END_TEXT, "b": WORD_BOUNDARY, "B": NO_WORD_BOUNDARY}.get(following)
        if condition is not None:
            parts.append(Condition(condition))
            self._at += 2
        elif following == "Q":
            end = self._text.find(r"\E", self._at)
            quoted = self._text[self._at + 2 : None if end < 0 else end]
            for character in quoted:
                self._literal(character)
            self._at += len(quoted) + 4
        else:
            bits = self._escaped_class()
            if bits is None:
                self._literal(self._escaped())
            else:
                parts.append(OneOf(bits))

    def _escaped_class(self) -> int | None:
        r"""Parse a class like `\d` or `\pL`; None if there is none at this position."""
        kind = self._text[self._at : self._at + 2]
        if kind in (r"\p", r"\P"):
            return self._unicode_class(kind)
        bits = self._characters.listed(kind.lower())
        if bits is None:
            return None
        self._at += 2
        return self._with_sign(self._cases(bits), kind.isupper())

    def _unicode_class(self, kind: str) -> int:
        name = self._text[self._at + 2 : self._at + 3]
        self._at += 3
        if name == "{":
            end = self._text.find("}", self._at)
            name = self._text[self._at : max(end, self._at)]
            self._at = end + 1
        is_negated = (kind == r"\P") != name.startswith("^")
        name = name.removeprefix("^")
        bits = self._characters.unicode(name, ignores_case=self._flags.ignores_case)
        if bits is None:
            raise PatternError("invalid character class range")
        if name in SCRIPTS and not self._characters.has_scripts:
            raise PatternError("scripts are only supported for ASCII")
        return self._with_sign(bits, is_negated)

    def _with_sign(self, bits: int, is_negated: bool) -> int:
        return self._characters.all & ~bits if is_negated else bits

    def _cases(self, bits: int) -> int:
        if not self._flags.ignores_case:
            return bits
        self._looked_at += self._characters.cased
        if self._looked_at > _CASES_MAX:
            raise PatternError(f"it has too many case-insensitive classes with {self._characters.cased} letters each")
        return self._characters.ignoring_case(bits)

    def _escaped(self) -> str:
        """Parse an escaped or special character."""
        found = _ESCAPE.match(self._text, self._at)
        if not found:
            is_last = self._at + 1 == len(self._text)
            raise PatternError("trailing backslash at end of expression" if is_last else "invalid escape sequence")
        self._at = found.end()
        if found["itself"]:
            return found["itself"]
        if found["control"]:
            return _CONTROLS[found["control"]]
        code = int(found["octal"], 8) if found["octal"] else int(found["hex"] or found["braced"], 16)
        if code > _LAST_CODE:
            raise PatternError("invalid escape sequence")
        return chr(code)

    # Classes in brackets.

    def _class(self) -> int:
        self._at += 1
        is_negated = self._text.startswith("^", self._at)
        self._at += is_negated
        bits, ranges, begin = 0, 0, self._at
        while self._at == begin or not self._text.startswith("]", self._at):
            found = self._listed_class()
            if found is None:
                found = self._escaped_class()
            if found is None:
                ranges |= self._range()
            else:
                bits |= found
        self._at += 1
        return self._with_sign(bits | self._cases(ranges), is_negated)

    def _listed_class(self) -> int | None:
        """Parse a class like `[:alpha:]` or `[:^alpha:]`; None if there is none at this position."""
        if not self._text.startswith("[:", self._at) or self._last_class_end <= self._at:
            return None
        end = self._text.index(":]", self._at) + 2
        name = self._text[self._at : end]
        bits = self._characters.listed(name.replace("[:^", "[:"))
        if bits is None:
            raise PatternError("invalid character class range")
        self._at = end
        return self._with_sign(self._cases(bits), name.startswith("[:^"))

    def _range(self) -> int:
        first = last = self._class_character()
        if self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at):
            self._at += 1
            last = self._class_character()
            if last < first:
                raise PatternError("invalid character class range")
        return self._characters.between(first, last)

    def _class_character(self) -> str:
        if self._at == len(self._text):
            raise PatternError("missing closing ]")
        if self._text[self._at] == "\\":
            return self._escaped()
        self._at += 1
        return self._text[self._at - 1]
