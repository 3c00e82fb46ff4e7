"""What is wrong with the content of a broker's file, and who decides what becomes of it.

A reader of a file with many entries takes an argument `on_damage`. By default damage is raised, and nothing of the file
counts. Otherwise `on_damage` is told of it, and reading goes on behind it: what can be read is given, even if it cannot
be true, right after `on_damage` was told so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

__all__ = ["DamagedContent", "OnDamage", "refuse", "stored_text"]


class DamagedContent(ValueError):
    """The content of a file is not what it should be.

    Args:
        reason: what is wrong, with the value and the limit.
        position: where, in bytes from the beginning; None if it is not at one place.
    """

    def __init__(self, reason: str, position: int | None = None) -> None:
        super().__init__(reason, position)
        self.reason = reason
        self.position = position

    def __str__(self) -> str:
        return self.reason


#: Told of damage; it may raise it.
OnDamage = Callable[[DamagedContent], object]


def refuse(damage: DamagedContent) -> NoReturn:
    """Raise damage.

    Raises:
        DamagedContent: always.
    """
    raise damage


def stored_text(content: bytes) -> str:
    """Return the text in a file.

    Raises:
        DamagedContent: it is not UTF-8.
    """
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        reason = f"no UTF-8: {error.reason} 0x{content[error.start]:02x}"
        raise DamagedContent(reason, error.start) from None
