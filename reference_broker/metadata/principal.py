"""The identity of a client, as ACLs, quotas and delegation tokens name it: `User:alice`.

Source: Apache Kafka, `KafkaPrincipal`.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Self

__all__ = ["ANONYMOUS", "USER", "KafkaPrincipal"]

#: The type of all principals that Kafka's own principal builder creates.
USER: Final = "User"


class KafkaPrincipal(NamedTuple):
    """An identity.

    Attributes:
        kind: the type of the principal, usually `USER`.
        name: its name within that type.
    """

    kind: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the principal that a text such as `User:alice` stands for.

        Raises:
            ValueError: the text has no type, or no name.
        """
        kind, colon, name = text.partition(":")
        if not kind or not colon or not name:
            raise ValueError(f"{text!r:.80} is not of the form User:name")
        return cls(kind, name)

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


#: The principal of a client that has not logged in.
ANONYMOUS: Final = KafkaPrincipal(USER, "ANONYMOUS")
