"""Damage in a broker's files, and the callback that decides how to handle it.

A reader of a file with many entries takes an argument `on_damage`. By default damage is raised, and the whole file is
unusable. Otherwise `on_damage` gets the damage, and reading continues after it: readable entries are yielded even if
they cannot be true, right after `on_damage` was called for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

__all__ = ["DamagedContent", "OnDamage", "refuse", "stored_text"]


class DamagedContent(ValueError):
    """The content of a file is damaged.

    Args:
        reason: the fault, with the value and the limit.
        position: the position of the damage in bytes; None if it is not at a single place.
    """

    def __init__(self, reason: str, position: int | None = None) -> None:
        super().__init__(reason, position)
        self.reason = reason
        self.position = position

    def __str__(self) -> str:
        return self.reason


#: Called with damage, which it may raise.
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
        DamagedContent: the content is not UTF-8.
    """
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        reason = f"not UTF-8: {error.reason} 0x{content[error.start]:02x}"
        raise DamagedContent(reason, error.start) from None
