"""Classic groups that exist only because an id was assigned; their number is limited."""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.reference_broker.groups.classic.group import ClassicGroup, GroupState
from kafkawire.reference_broker.groups.outbox import Outbox
from kafkawire.reference_broker.groups.records import group_tombstone

__all__ = ["UnusedGroups"]

#: Maximum number of these groups in a shard. Each occupies memory until the shard cleans up, and every request for an
#: id creates one.
_UNUSED_GROUPS_MAX = 10_000


class UnusedGroups:
    """The shard's groups without data; the shard's cleanup removes those that this class does not delete.

    Args:
        groups: the groups, keyed by id.
        has_offsets: returns whether a group has committed offsets.
        outbox: receives the records that delete groups.
    """

    def __init__(self, groups: dict[str, ClassicGroup], has_offsets: Callable[[str], bool], outbox: Outbox) -> None:
        self._groups = groups
        self._has_offsets = has_offsets
        self._outbox = outbox
        #: Unused groups, oldest first.
        self._ids: dict[str, None] = {}

    def note(self, group: ClassicGroup) -> None:
        """Add a group for which an id was assigned; if there are too many, delete the oldest."""
        if not self._is_unused(group) or group.group_id in self._ids:
            return
        while len(self._ids) >= _UNUSED_GROUPS_MAX:
            group_id = next(iter(self._ids))
            del self._ids[group_id]
            oldest = self._groups.get(group_id)
            if oldest is not None and self._is_unused(oldest):  # offsets may have been committed without a member
                self._outbox.add(group_tombstone(group_id))
        self._ids[group.group_id] = None

    def remove(self, group_id: str) -> None:
        """Remove a group that is now in use, or has been deleted."""
        self._ids.pop(group_id, None)

    def _is_unused(self, group: ClassicGroup) -> bool:
        return group.state is GroupState.EMPTY and group.generation_id == 0 and not self._has_offsets(group.group_id)
