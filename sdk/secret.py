"""Texts that must not appear in logs, reprs or errors: passwords, private keys, tokens.

Options keep such a text in a `Secret`, which only `reveal` opens. A value that is not in a `Secret` yet, say because
the name of its option is misspelt, or somebody else sends it, is shown only if that name cannot be meant for a secret.
"""

from __future__ import annotations

import re
from typing import NoReturn, Self, SupportsIndex

from kafkawire.sdk.protocol.values import quoted

__all__ = ["HIDDEN", "Secret", "may_be_secret", "shown"]

#: What stands for a secret.
HIDDEN = "<hidden>"

#: Names of values that may be secret, misspelt ones too: all options for security but those known to be harmless, also
#: where they belong to one listener of a broker.
_SECRET_NAME = re.compile(
    r"pas|pwd|secret|token|jaas|credential|private|pem|key$"
    r"|(?:^|\.)(?:sasl|ssl)(?!.*(?:algorithm|context|location|mechanism|name$|region|scope|type$))",
    re.IGNORECASE,
)


#: Characters of a name that is looked at: no option has half as many.
_NAME_CHARACTERS_MAX = 250


class Secret:
    """A text that does not show itself: not by `str` or `repr`, and not in a pickle."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
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
        raise TypeError("a secret cannot be pickled: give it to the other process in another way")


def may_be_secret(name: str) -> bool:
    """Return whether the value of an option, or of a field, may be secret."""
    return len(name) > _NAME_CHARACTERS_MAX or _SECRET_NAME.search(name) is not None


def shown(name: str, value: object) -> str:
    """Return how an error shows the value of an option."""
    return HIDDEN if value is not None and may_be_secret(name) else quoted(value, limit=None)
