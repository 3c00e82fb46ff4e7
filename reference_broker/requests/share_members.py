"""The ids of the members of share groups, which the members choose themselves."""

from __future__ import annotations

__all__ = ["is_member_id"]

#: The length of a UUID in its usual form.
_CHARACTERS_MAX = 36


def is_member_id(member_id: str | None) -> bool:
    """Return whether a text can be a member's id; its characters are counted as in Java."""
    return bool(member_id) and len((member_id or "").encode("utf-16-le", "surrogatepass")) <= 2 * _CHARACTERS_MAX
