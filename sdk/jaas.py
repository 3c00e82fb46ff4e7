"""Read the notation of JAAS: login modules with options, as in `sasl.jaas.config` and in files of Java programs.

    KafkaServer {
        org.apache.kafka.common.security.plain.PlainLoginModule required
            username="admin"
            user_admin="secret";
    };

A file has sections; the value of `sasl.jaas.config` has the content of a section. Values are often secret, so no error
shows any text that was read: errors name the line and the character, counted from 1.

Source: `JaasConfig` in Apache Kafka; `javax.security.auth.login.Configuration` and `StreamTokenizer` in Java.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, NoReturn

__all__ = ["CONTROL_FLAGS", "TEXT_CHARACTERS_MAX", "JaasEntry", "read_entries", "read_sections"]

#: Whether a login has to succeed with a module; Kafka accepts each of them, and requires success regardless.
CONTROL_FLAGS: Final = ("required", "requisite", "sufficient", "optional")

#: The maximum length of a text; a file with several sections has a few hundred characters, and one with a thousand
#: users 50,000.
TEXT_CHARACTERS_MAX: Final = 1_000_000

#: Spaces and comments before a token. Java's comments begin with two characters.
_SPACE: Final = re.compile(r"(?:[\x00-\x20]+|//[^\r\n]*|#[^\r\n]*|/\*.*?\*/)*", re.DOTALL)

#: Text in quotation marks, which ends on the same line; a word; or one of the characters { } ; =. In Java, a word
#: cannot begin with a digit, a hyphen or a point, which begin a number.
_TOKEN: Final = re.compile(
    r"\"(?P<double>(?:[^\"\\\r\n]|\\.)*)\"|'(?P<single>(?:[^'\\\r\n]|\\.)*)'"
    r"|(?P<word>[A-Za-z_$*\u00a0-\U0010ffff][\w.$*\-\u00a0-\U0010ffff]*)|(?P<sign>[{};=])",
    re.DOTALL,
)

#: An octal number of up to three digits, or a single character.
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasEntry(NamedTuple):
    """A login module and its options.

    Attributes:
        module: the name of its Java class.
        control_flag: one of `CONTROL_FLAGS`.
        options: the values of its options, which may be secret.
    """

    module: str
    control_flag: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"JaasEntry({self.module!r}, {self.control_flag!r}, options={sorted(self.options)})"


def read_entries(text: str) -> list[JaasEntry]:
    """Return the login modules in a text without sections, such as the value of `sasl.jaas.config`.

    Raises:
        ValueError: the text does not have the notation; the error names the place.
    """
    tokens, entries = _Tokens(text), list[JaasEntry]()
    while not tokens.is_end:
        entries.append(_entry(tokens))
    return entries


def read_sections(text: str) -> dict[str, list[JaasEntry]]:
    """Return the login modules of each section of a file.

    Raises:
        ValueError: the text does not have the notation, or a section occurs twice; the error names the place.
    """
    tokens, sections = _Tokens(text), dict[str, list[JaasEntry]]()
    while not tokens.is_end:
        if tokens.word in sections:
            tokens.refuse("the section has occurred before")
        entries = sections[tokens.take_word("the name of a section")] = []
        tokens.take_sign("{")
        while tokens.sign != "}":
            entries.append(_entry(tokens))
        tokens.take_sign("}")
        tokens.take_sign(";")
    return sections


def _entry(tokens: _Tokens) -> JaasEntry:
    module = tokens.take_word("a login module")
    if tokens.word.lower() not in CONTROL_FLAGS:
        tokens.refuse(f"expected one of {', '.join(CONTROL_FLAGS)}")
    flag = tokens.take_word("a control flag").lower()
    options: dict[str, str] = {}
    while tokens.sign != ";":
        key = tokens.take_word("an option, or ;")
        tokens.take_sign("=")
        options[key] = tokens.take_word("a value, in quotation marks unless it is a word")
    tokens.take_sign(";")
    return JaasEntry(module, flag, options)


class _Tokens:
    """The tokens of a text.

    Attributes:
        sign: the current token, if it is one of { } ; = and otherwise empty.
        word: the current token, if it is a word or text in quotation marks, and otherwise empty.
        is_end: whether there are no more tokens.
    """

    def __init__(self, text: str) -> None:
        if len(text) > TEXT_CHARACTERS_MAX:
            raise ValueError(f"the text has {len(text)} characters, but at most {TEXT_CHARACTERS_MAX} are allowed")
        self._text = text
        self._begin = self._end = 0
        self.sign = self.word = ""
        self.is_end = False
        self._advance()

    def take_word(self, what: str) -> str:
        """Return the current word, and read the next token."""
        if self.sign or self.is_end:
            self.refuse(f"expected {what}")
        word = self.word
        self._advance()
        return word

    def take_sign(self, sign: str) -> None:
        """Expect one of { } ; = and read the next token."""
        if self.sign != sign:
            self.refuse(f"expected {sign}")
        self._advance()

    def refuse(self, reason: str) -> NoReturn:
        """Raise an error about the current token."""
        line = self._text.count("\n", 0, self._begin) + 1
        character = self._begin - self._text.rfind("\n", 0, self._begin)
        raise ValueError(f"line {line}, character {character}: {reason}")

    def _advance(self) -> None:
        space = _SPACE.match(self._text, self._end)
        assert space is not None
        self._begin = space.end()
        self.sign = self.word = ""
        self.is_end = self._begin == len(self._text)
        if self.is_end:
            return
        match = _TOKEN.match(self._text, self._begin)
        if match is None:
            self.refuse(_reason(self._text[self._begin]))
        self._end = match.end()
        self.sign = match["sign"] or ""
        quoted = match["double"] if match["double"] is not None else match["single"]
        self.word = match["word"] or "" if quoted is None else _ESCAPE.sub(_escaped, quoted)


def _reason(character: str) -> str:
    """Return what is wrong with a token that begins with a character."""
    if character in "\"'":
        return "unclosed quotation mark"
    if character == "/":
        return "unclosed comment, or a value that must be in quotation marks"
    return "expected a word, text in quotation marks, or one of { } ; ="


def _escaped(match: re.Match[str]) -> str:
    found = match[1]
    return chr(int(found, 8)) if found[0] in "01234567" else _ESCAPED.get(found, found)
