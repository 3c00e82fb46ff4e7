"""Strings that must not appear in logs, reprs or errors: passwords, private keys, tokens.

Options keep such a string in a `Secret`, which only `reveal` opens. A value that is not in a `Secret`, for example
because its option's name is misspelt or a peer sent it, is shown only if its name rules out a secret.
"""

from __future__ import annotations

import re
from typing import NoReturn, Self, SupportsIndex

from kafkawire.sdk.protocol.values import quoted

__all__ = ["HIDDEN", "Secret", "SecretBytes", "SecretText", "may_be_secret", "revealed", "shown"]

#: What is shown in place of a secret.
HIDDEN = "<hidden>"

#: Names of values that may be secret, even if misspelt: all security options except those known to be harmless,
#: including the options of a broker's individual listeners.
_SECRET_NAME = re.compile(
    r"pas|pwd|secret|token|jaas|credential|private|pem|key$"
    r"|(?:^|\.)(?:sasl|ssl)"
    r"(?!.*(?:algorithm|allow|auth$|context|location|mechanism|name$|protocols$|region|rules$|scope|suites$|type$))",
    re.IGNORECASE,
)


#: The maximum length of a name to match: no option's name is half as long.
_NAME_CHARACTERS_MAX = 250


class Secret:
    """A string that neither `str` nor `repr` reveals, and that cannot be pickled."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = revealed(text)

    def reveal(self) -> str:
        """Return the secret string."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a secret cannot be pickled: pass it to the other process in another way")


class SecretBytes(bytes):
    """Bytes that `repr` does not reveal, and that cannot be pickled; otherwise, they are like others.

    For secrets that are compared or looked up as bytes. `bytes(secret)` returns ordinary bytes.
    """

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a secret cannot be pickled: pass it to the other process in another way")


class SecretText(str):
    """Text that neither `str`, `repr` nor formatting reveals, and that cannot be pickled; otherwise, it is like others.

    For secrets that are kept among other values, such as configurations. `revealed` returns ordinary text.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __format__(self, specification: str) -> str:
        return format(HIDDEN, specification)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a secret cannot be pickled: pass it to the other process in another way")


def revealed(text: str) -> str:
    """Return ordinary text, even for a `SecretText`."""
    return str.__str__(text) if isinstance(text, SecretText) else text


def may_be_secret(name: str) -> bool:
    """Return whether the value of an option, or of a field, may be secret."""
    return len(name) > _NAME_CHARACTERS_MAX or _SECRET_NAME.search(name) is not None


def shown(name: str, value: object) -> str:
    """Return an option's value as shown in an error."""
    return HIDDEN if value is not None and may_be_secret(name) else quoted(value, limit=None)
