"""Damage in a broker's files, and the callback that decides how to handle it.

Functions that read a file with many entries take an argument `on_damage`. By default, it raises the damage, which makes
the whole file unusable. If the callback returns instead, reading continues: every readable entry is yielded, even an
implausible one, after a call to `on_damage`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

__all__ = ["DamagedContent", "OnDamage", "refuse", "stored_text"]


class DamagedContent(ValueError):
    """The content of a file is damaged.

    Args:
        reason: what is wrong, with the value and the limit.
        position: the byte offset of the damage; None if it is not in a single place.
    """

    def __init__(self, reason: str, position: int | None = None) -> None:
        super().__init__(reason, position)
        self.reason = reason
        self.position = position

    def __str__(self) -> str:
        return self.reason


#: Called with each piece of damage, which it may raise.
OnDamage = Callable[[DamagedContent], object]


def refuse(damage: DamagedContent) -> NoReturn:
    """Raise the damage.

    Raises:
        DamagedContent: always.
    """
    raise damage


def stored_text(content: bytes) -> str:
    """Return the text in a file.

    Raises:
        DamagedContent: the content is not UTF-8.
    """
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        reason = f"not UTF-8: {error.reason} 0x{content[error.start]:02x}"
        raise DamagedContent(reason, error.start) from None
