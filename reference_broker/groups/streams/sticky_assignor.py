"""The assignor of streams groups: it spreads tasks evenly over members, and moves few of them.

Active tasks stay with their members, or go to members that have a standby task with the same state; the rest goes to
the processes with the fewest tasks for each member. Standby tasks then go to other processes, in the same order of
preference.

Source: KIP-1071; `StickyTaskAssignor`, `ProcessState` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkawire.reference_broker.groups.streams.configured_topology import ConfiguredSubtopology
from kafkawire.reference_broker.groups.streams.group import Task, TaskNumbers, Tasks
from kafkawire.reference_broker.groups.streams.load_queue import LoadQueue

__all__ = ["AssignedMember", "sticky_assignment"]


class AssignedMember(NamedTuple):
    """A member, as the assignor sees it.

    Attributes:
        process_id: the member's process.
        tasks: the member's tasks in the last target assignment.
    """

    process_id: str
    tasks: Tasks


def sticky_assignment(
    members: Mapping[str, AssignedMember], subtopologies: Mapping[str, ConfiguredSubtopology], standby_replicas: int
) -> dict[str, Tasks]:
    """Return the tasks of each member.

    Args:
        members: the members, keyed by id.
        subtopologies: the subtopologies, keyed by id.
        standby_replicas: how many standby tasks each stateful task has, if there are enough processes.
    """
    if not members:
        return {}
    return _Assignment(members, subtopologies, standby_replicas).made()


class _Quota:
    """The number of tasks that a member may have before it must leave the rest to others.

    Args:
        tasks: the number of tasks.
        members: the number of members.
    """

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members

    @property
    def value(self) -> int:
        """The tasks for each member that has not reached its quota, rounded up."""
        return -(-self._tasks // self._members) if self._members else 0

    def reached(self, tasks: int) -> None:
        """Take the members and tasks out of the calculation if a member has reached the quota."""
        if tasks == self.value:
            self._tasks -= tasks
            self._members -= 1


class _Process:
    """The members of a process, and their tasks.

    Attributes:
        counts: the number of tasks of each member.
        tasks: the tasks in any role.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.tasks: set[Task] = set()
        self._total = 0
        self._idlest: LoadQueue[str] | None = None

    @property
    def load(self) -> float:
        """The number of tasks for each member."""
        return self._total / len(self.counts)

    def add(self, member_id: str, task: Task) -> int:
        """Add a task of a member; return the member's number of tasks."""
        self._idlest = None
        return self._add(member_id, task)

    def _add(self, member_id: str, task: Task) -> int:
        self._total += 1
        self.tasks.add(task)
        self.counts[member_id] += 1
        return self.counts[member_id]

    def add_to_idlest(self, task: Task) -> tuple[str, int]:
        """Add a task to the member with the fewest; return the member and its number of tasks."""
        if self._idlest is None:
            self._idlest = LoadQueue(self.counts, self.counts.__getitem__)
        member_id = self._idlest.pop()
        tasks = self._add(member_id, task)
        self._idlest.put(member_id)
        return member_id, tasks


class _Assignment:
    """An assignment in the making; see `sticky_assignment`."""

    def __init__(
        self,
        members: Mapping[str, AssignedMember],
        subtopologies: Mapping[str, ConfiguredSubtopology],
        standby_replicas: int,
    ) -> None:
        self._members = members
        self._replicas = standby_replicas
        self._all = [(key, number) for key, part in subtopologies.items() for number in range(part.tasks)]
        self._stateful = [task for task in self._all if subtopologies[task[0]].changelogs]
        self._active_quota = _Quota(len(self._all), len(members))
        self._quota = _Quota(len(self._all) + len(self._stateful) * standby_replicas, len(members))
        self._processes: dict[str, _Process] = {}
        self._was_active: dict[Task, str] = {}
        self._was_standby: dict[Task, list[str]] = {}
        self._active: dict[str, list[Task]] = {member_id: [] for member_id in members}
        self._standby: dict[str, list[Task]] = {member_id: [] for member_id in members}
        for member_id, member in sorted(members.items()):
            self._processes.setdefault(member.process_id, _Process()).counts[member_id] = 0
            for task in _each(member.tasks.active):
                self._was_active[task] = member_id
            for task in _each(member.tasks.standby):
                self._was_standby.setdefault(task, []).append(member_id)

    def made(self) -> dict[str, Tasks]:
        """Make the assignment."""
        self._assign_active()
        if self._replicas:
            self._assign_standby()
        return {
            member_id: Tasks(_compact(self._active[member_id]), _compact(self._standby[member_id]), {})
            for member_id in self._members
        }

    def _process_of(self, member_id: str) -> _Process:
        return self._processes[self._members[member_id].process_id]

    def _has_room(self, member_id: str, quota: _Quota) -> bool:
        return self._process_of(member_id).counts[member_id] < quota.value

    # Active tasks.

    def _assign_active(self) -> None:
        by_partition = sorted(self._all, key=lambda task: (task[1], task[0]))
        left = [task for task in by_partition if not self._keep_active(task, self._was_active.get(task))]
        left = [task for task in left if not self._keep_active(task, self._idlest_of(task, is_standby=False))]
        queue = LoadQueue(self._processes.values(), lambda process: process.load)
        # A new application gets ranges of the tasks of each subtopology.
        for task in sorted(left):
            process = queue.pop()
            member_id, tasks = process.add_to_idlest(task)
            self._made_active(member_id, task, tasks)
            queue.put(process)

    def _keep_active(self, task: Task, member_id: str | None) -> bool:
        if member_id is None or not self._has_room(member_id, self._active_quota):
            return False
        self._made_active(member_id, task, self._process_of(member_id).add(member_id, task))
        return True

    def _made_active(self, member_id: str, task: Task, tasks: int) -> None:
        self._active[member_id].append(task)
        self._active_quota.reached(tasks)
        self._quota.reached(tasks)

    # Standby tasks.

    def _assign_standby(self) -> None:
        left: list[tuple[Task, int]] = []
        for task in sorted(self._stateful, key=lambda task: (task[1], task[0]), reverse=True):
            for made in range(self._replicas):
                if not self._keep_standby(task):
                    left.append((task, self._replicas - made))
                    break
        queue = LoadQueue(self._processes.values(), lambda process: process.load)
        for task, replicas in sorted(left, reverse=True):
            for _ in range(replicas):
                if not self._put_standby(task, queue):
                    break  # there are too few processes

    def _keep_standby(self, task: Task) -> bool:
        """Make a member that has had a task its standby, if there is one with room."""
        was_active = self._was_active.get(task)
        for member_id in (was_active, self._idlest_of(task, is_standby=True)):
            if (
                member_id is not None
                and task not in self._process_of(member_id).tasks
                and self._has_room(member_id, self._quota)
            ):
                self._made_standby(member_id, task, self._process_of(member_id).add(member_id, task))
                return True
        return False

    def _put_standby(self, task: Task, queue: LoadQueue[_Process]) -> bool:
        """Give a standby task to the process with the lowest load that does not have the task."""
        passed: list[_Process] = []
        is_put = False
        while queue and not is_put:
            process = queue.pop()
            passed.append(process)
            if task not in process.tasks:
                member_id, tasks = process.add_to_idlest(task)
                self._made_standby(member_id, task, tasks)
                is_put = True
        for process in reversed(passed):
            queue.put(process)
        return is_put

    def _made_standby(self, member_id: str, task: Task, tasks: int) -> None:
        self._standby[member_id].append(task)
        self._quota.reached(tasks)

    def _idlest_of(self, task: Task, *, is_standby: bool) -> str | None:
        """Return the least loaded member that had a task as a standby, by the load of its process and by its own tasks.

        Args:
            task: the task.
            is_standby: whether the member is to be a standby, in which case its process must not have the task yet.
        """
        members = self._was_standby.get(task)
        if not members:
            return None
        found = first = members[0]
        load, tasks = self._process_of(first).load, self._process_of(first).counts[first]
        for member_id in members[1:]:
            process = self._process_of(member_id)
            is_free = not is_standby or task not in process.tasks
            if process.load < load and is_free and process.counts[member_id] < tasks:
                found, load, tasks = member_id, process.load, process.counts[member_id]
        # As in Kafka, the first member's process decides, even if another member was found.
        return None if is_standby and task in self._process_of(first).tasks else found


def _each(numbers: TaskNumbers) -> list[Task]:
    return [(subtopology_id, number) for subtopology_id, part in numbers.items() for number in sorted(part)]


def _compact(tasks: Iterable[Task]) -> TaskNumbers:
    found: dict[str, set[int]] = {}
    for subtopology_id, number in tasks:
        found.setdefault(subtopology_id, set()).add(number)
    return {subtopology_id: frozenset(numbers) for subtopology_id, numbers in sorted(found.items())}
