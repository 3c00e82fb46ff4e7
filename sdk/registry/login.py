"""The SASL login to a ZooKeeper, as specified by the login module file (JAAS) of Java programs.

    Client {
        org.apache.zookeeper.server.auth.DigestLoginModule required
            username="kafka"
            password="secret";
    };

Source: `javax.security.auth.login.Configuration` (syntax of the file); `DigestLoginModule` in Apache ZooKeeper.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.secret import Secret

__all__ = ["SaslDigest", "login_of"]

#: The only login module that is supported.
_DIGEST: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")

#: Comments and spaces, then a token: quoted text, a word, or one of the characters { } ; =.
_TOKEN: Final = re.compile(
    r"(?:\s+|//[^\n]*|#[^\n]*|/\*.*?\*/)*"
    r"(?:\"(?P<quoted>(?:[^\"\\\n]|\\.)*)\"|'(?P<single>[^'\n]*)'|(?P<word>[^\s{};=\"'#]+)|(?P<sign>[{};=])|(?P<end>$))",
    re.DOTALL,
)

#: The maximum size in bytes; a file with several sections has a few hundred.
_FILE_BYTES_MAX: Final = 1_000_000


class SaslDigest(NamedTuple):
    """A SASL login with DIGEST-MD5.

    Attributes:
        user: the user name.
        password: the user's password.
    """

    user: str
    password: Secret


def login_of(option: str, path: str, section: str) -> SaslDigest | None:
    """Return the login in a section of a login module file; None if the file has no such section.

    Args:
        option: the option that names the file, for errors.
        path: the file.
        section: the name of the section.

    Raises:
        ConfigurationError: the file cannot be read, the section has a login module other than DigestLoginModule, or the
            user name or the password is missing.
    """
    try:
        with open(path, "rb") as file:
            text = file.read(_FILE_BYTES_MAX).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(option, path, f"cannot be read: {error}") from error
    try:
        modules = _sections(text).get(section)
    except ValueError as error:
        raise ConfigurationError(option, path, str(error)) from None
    if modules is None:
        return None
    if [name for name, _ in modules] != [_DIGEST]:
        names = ", ".join(name for name, _ in modules) or "none"
        raise ConfigurationError(option, path, f"section {section}: expected the login module {_DIGEST}, not {names}")
    (_, given), *_ = modules
    user, password = given.get("username"), given.get("password")
    if not user or not password:
        missing = "username" if not user else "password"
        raise ConfigurationError(option, path, f"section {section}: {missing} is missing")
    return SaslDigest(user, Secret(password))


class _Tokens:
    """Reads the tokens of a file."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self.line = 1
        self.sign = self.word = ""
        self.advance()

    def advance(self) -> None:
        """Read the next token: into `sign` if it is one of { } ; = or the end (empty), otherwise into `word`."""
        match = _TOKEN.match(self._text, self._place)
        if match is None:
            raise ValueError(f"line {self._text.count(chr(10), 0, self._place) + 1}: unclosed quotation mark")
        self._place = match.end()
        self.line = self._text.count("\n", 0, match.end()) + 1
        quoted = match["quoted"]
        self.sign = match["sign"] or ""
        self.is_end = match["end"] is not None
        self.word = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else match["single"] or match["word"] or ""

    def take_word(self, what: str) -> str:
        """Return the current word, and read the next token."""
        if self.sign or self.is_end:
            raise ValueError(f"line {self.line}: expected {what}")
        word = self.word
        self.advance()
        return word

    def take_sign(self, sign: str) -> None:
        """Expect one of { } ; = and read the next token."""
        if self.sign != sign:
            raise ValueError(f"line {self.line}: expected {sign}")
        self.advance()


def _sections(text: str) -> Mapping[str, list[tuple[str, dict[str, str]]]]:
    """Return the login modules with their options, by section.

    Raises:
        ValueError: the text does not have the syntax of a login module file; the error names the line.
    """
    tokens, sections = _Tokens(text), dict[str, list[tuple[str, dict[str, str]]]]()
    while not tokens.is_end:
        modules = sections[tokens.take_word("the name of a section")] = []
        tokens.take_sign("{")
        while tokens.sign != "}":
            name = tokens.take_word("a login module")
            flag = tokens.take_word("required")
            if flag.lower() not in _FLAGS:
                raise ValueError(f"line {tokens.line}: expected one of {', '.join(_FLAGS)}, not {flag}")
            options: dict[str, str] = {}
            while tokens.sign != ";":
                key = tokens.take_word("an option, or ;")
                tokens.take_sign("=")
                options[key] = tokens.take_word("a value")
            tokens.take_sign(";")
            modules.append((name, options))
        tokens.take_sign("}")
        tokens.take_sign(";")
    return sections
