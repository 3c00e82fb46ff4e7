"""The end of a membership: the partitions are given up as in a rebalance, then the member leaves, all by a deadline.

Most of the time is reserved for the commit, some for the listener, and the rest for telling the coordinator. A step
that exceeds its share is abandoned, so a stopped broker cannot cause a delay beyond the deadline.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kafkawire.sdk.errors import Closed
from kafkawire.sdk.groups.assignment_changes import AssignmentChanges
from kafkawire.sdk.groups.protocol import MemberReader
from kafkawire.sdk.routing.call import Call
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.promise import Promise

__all__ = ["Departure"]

logger = logging.getLogger("kafkawire.group")

#: Shares of the remaining time, in eighths: the commit ends after six eighths, the listener after seven.
_SHARES = 8
_COMMIT_SHARES = 6
_LISTENER_SHARES = 7

#: Returns a call that leaves the group by a deadline and ends with `on_done`; None if there is nothing to leave.
Leave = Callable[[int, Callable[[Call, int], None]], Call | None]


class Departure:
    """One departure of a member from its group.

    Args:
        router: sends the call.
        assignment_changes: gives up the partitions.
        reader: reads the partitions.
        leave: see `Leave`.
        deadline_ms: the time by which the departure must end.
        promise: fulfilled when the departure has ended.
        now_ms: the time.
    """

    def __init__(
        self,
        router: Router,
        assignment_changes: AssignmentChanges,
        reader: MemberReader,
        leave: Leave,
        deadline_ms: int,
        promise: Promise[None],
        now_ms: int,
    ) -> None:
        self._router = router
        self._assignment_changes = assignment_changes
        self._reader = reader
        self._leave = leave
        self._promise = promise
        self._deadline_ms = deadline_ms
        left_ms = max(0, deadline_ms - now_ms)
        self._commit_by_ms = now_ms + left_ms * _COMMIT_SHARES // _SHARES
        self._leave_by_ms = now_ms + left_ms * _LISTENER_SHARES // _SHARES
        self._call: Call | None = None
        self._is_leaving = False

    @property
    def is_leaving(self) -> bool:
        """Whether the partitions have been given up."""
        return self._is_leaving

    @property
    def is_over(self) -> bool:
        """Whether every step has been completed or abandoned."""
        return self._promise.done

    def followed_by(self, promise: Promise[None]) -> None:
        """Also fulfill another promise once the departure has ended."""
        self._promise.add_done_callback(lambda: promise.keep(None))

    def begin(self, generation: int, now_ms: int) -> None:
        """Give up the partitions, after any running operation has ended.

        Args:
            generation: the current generation.
            now_ms: the time.
        """

        def revoke(now_ms: int) -> None:
            self._assignment_changes.revoke(self._reader.assigned, generation, self._commit_by_ms, now_ms, self.leave)

        self._assignment_changes.after(revoke, now_ms)

    def leave(self, now_ms: int) -> None:
        """Tell the coordinator, once the partitions are given up."""
        if self._is_leaving:
            return
        self._is_leaving = True
        self._call = self._leave(self._deadline_ms, self._left)
        if self._call is None:
            logger.info("group %s: left without notifying the coordinator", self._assignment_changes.group_id)
            self._promise.keep(None)
            return
        try:
            self._router.submit(self._call, now_ms)
        except Closed:  # the client has ended in the meantime
            self._promise.keep(None)

    def poll(self, now_ms: int) -> None:
        """Leave if the commit and the listener take too long; the call that leaves has a separate deadline."""
        if not self._is_leaving and now_ms >= self._leave_by_ms:
            self._assignment_changes.abandon(now_ms)
            self.leave(now_ms)

    def cancel(self) -> None:
        """End the departure immediately."""
        if self._call is not None:
            self._call.cancel()
        self._promise.keep(None)

    def due_ms(self) -> int | None:
        """Return when to poll again."""
        return None if self._is_leaving or self.is_over else self._leave_by_ms

    def _left(self, call: Call, now_ms: int) -> None:
        if call.error is None:
            logger.info("group %s: left", self._assignment_changes.group_id)
        else:
            logger.warning(
                "group %s: could not tell the coordinator that it left: %s",
                self._assignment_changes.group_id,
                call.error,
            )
        self._promise.keep(None)
