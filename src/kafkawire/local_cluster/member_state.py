"""The states of a member (a broker or ZooKeeper) of a cluster on this machine."""

from __future__ import annotations

from enum import Enum
from typing import Final

from kafkawire.sdk.states import Edges

__all__ = ["MEMBER_EDGES", "MemberState"]


class MemberState(Enum):
    """The state of a member; the values are those in `cluster.json`."""

    #: It has no process, since it has not been started yet, or was told to stop.
    STOPPED = "stopped"
    #: Its process is running but not ready yet.
    STARTING = "starting"
    #: It is ready: ZooKeeper accepts connections, or the controller has announced the broker.
    RUNNING = "running"
    #: A signal has paused its process; its connections stay open.
    PAUSED = "paused"
    #: It was told to stop, but its process is still running.
    STOPPING = "stopping"
    #: It has no process, since it was killed, either on request or because it took too long to stop.
    KILLED = "killed"
    #: It has no process, although no command asked for that: it failed, or another program ended it.
    ENDED = "ended"

    @property
    def has_process(self) -> bool:
        """Whether the member has a process."""
        return self not in (MemberState.STOPPED, MemberState.KILLED, MemberState.ENDED)


_START: Final = {MemberState.STARTING: "start, restart"}
_ENDS: Final = {MemberState.STOPPING: "stop, restart", MemberState.KILLED: "kill", MemberState.ENDED: "it ends"}

#: The transitions between the states of a member.
MEMBER_EDGES: Final = Edges(
    "a member of a cluster",
    (MemberState.STOPPED,),
    {
        MemberState.STOPPED: _START,
        MemberState.STARTING: {
            MemberState.RUNNING: "it is ready",
            MemberState.PAUSED: "pause, SIGSTOP",
            **_ENDS,
        },
        MemberState.RUNNING: {MemberState.PAUSED: "pause, SIGSTOP", **_ENDS},
        MemberState.PAUSED: {
            MemberState.RUNNING: "resume, SIGCONT",
            MemberState.STARTING: "resume, SIGCONT, before it was ready",
            **_ENDS,
        },
        MemberState.STOPPING: {
            MemberState.STOPPED: "it ends",
            MemberState.KILLED: "kill, or stopping takes too long",
        },
        MemberState.KILLED: _START,
        MemberState.ENDED: _START,
    },
)
