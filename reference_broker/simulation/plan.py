"""The external events in a cluster: faults and operations, each with its time, drawn from a seed before the run.

A plan is a value: parts of it can be left out and the rest run again, which is how the plan of a failing seed is
shrunk.
"""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

from kafkawire.reference_broker.simulation.cluster import BROKERS

__all__ = ["DURATION_MS", "Plan", "Step", "plan_of"]

#: When the last fault begins; after that, everything is repaired.
DURATION_MS: Final = 2_500

#: When the first fault begins: once the cluster is up.
_FIRST_MS: Final = 150

_FAULTS_MAX: Final = 6
_OPERATIONS_MAX: Final = 4

#: Requests between brokers, and requests whose answers are promises on which a client relies.
_APIS: Final = (
    "ADD_PARTITIONS_TO_TXN",
    "ALTER_PARTITION",
    "CONTROLLED_SHUTDOWN",
    "END_TXN",
    "FETCH",
    "INIT_PRODUCER_ID",
    "LEADER_AND_ISR",
    "OFFSET_COMMIT",
    "PRODUCE",
    "TXN_OFFSET_COMMIT",
    "UPDATE_METADATA",
    "WRITE_TXN_MARKERS",
)

_NAMES: Final = ("b1", "b2", "b3")


class Step(NamedTuple):
    """A fault or an operation.

    Attributes:
        time_ms: when the step happens.
        name: the name of the method of `Faults` or `Operations` that carries it out.
        arguments: the arguments of the method.
    """

    time_ms: int
    name: str
    arguments: tuple[int | str, ...] = ()

    def __str__(self) -> str:
        return f"{self.time_ms} ms: {self.name}({', '.join(map(repr, self.arguments))})"


class Plan(NamedTuple):
    """Everything that a run depends on.

    Attributes:
        seed: determines everything that the steps leave open.
        is_synced: whether each record is synced before it is acknowledged, in which case the power may be cut.
        steps: the steps, in chronological order.
    """

    seed: int
    is_synced: bool
    steps: tuple[Step, ...]

    def without(self, left_out: frozenset[Step]) -> Plan:
        """Return the plan without some steps."""
        return self._replace(steps=tuple(step for step in self.steps if step not in left_out))


def plan_of(seed: int) -> Plan:
    """Return the plan for a seed."""
    chance = Random(f"{seed} plan")
    is_synced = chance.random() < 0.4
    steps = [_fault(chance, is_synced) for _ in range(chance.randint(1, _FAULTS_MAX))]
    steps += [_operation(chance) for _ in range(chance.randint(0, _OPERATIONS_MAX))]
    return Plan(seed, is_synced, tuple(sorted(steps)))


def _time(chance: Random) -> int:
    return chance.randint(_FIRST_MS, DURATION_MS)


def _down(chance: Random) -> int:
    """Return how long something is down: often for less than a session timeout, sometimes for longer."""
    return chance.choice([chance.randint(20, 200), chance.randint(200, 1_500)])


def _fault(chance: Random, is_synced: bool) -> Step:
    broker_id = chance.choice(BROKERS)
    kinds = ["kill", "kill", "stop", "pause", "cut", "cut", "cut_one_way", "break_connections", "disconnect", "expire"]
    kinds += ["registry_fault", "registry_outage", "kill_transformer", "pause_client"]
    if is_synced:
        kinds += ["cut_power", "cut_power", "cut_power_in_work", "fail_disk", "fail_disk"]
    kinds += ["at_request"] * 6
    kind = chance.choice(kinds)
    time_ms = _time(chance)
    match kind:
        case "kill" | "stop" | "pause" | "disconnect" | "cut_power":
            return Step(time_ms, kind, (broker_id, _down(chance)))
        case "at_request":
            actions = ["kill", "kill", "pause", "cut", *(["cut_power"] if is_synced else [])]
            arguments = chance.choice(_APIS), chance.randint(1, 4), chance.choice(["sender", "receiver"])
            return Step(time_ms, kind, (*arguments, chance.choice(actions), _down(chance)))
        case "fail_disk":
            return Step(time_ms, kind, (broker_id, chance.randint(1, 60)))
        case "cut_power_in_work":
            return Step(time_ms, kind, (broker_id, chance.randint(1, 60), _down(chance)))
        case "cut":
            return Step(time_ms, kind, (chance.choice(_NAMES), chance.choice([*_NAMES, "clients"]), _down(chance)))
        case "cut_one_way":
            return Step(time_ms, kind, (*chance.sample(_NAMES, 2), _down(chance)))
        case "registry_fault":
            fault = chance.choice(["LOSE_REQUEST", "LOSE_RESPONSE", "EXPIRE_BEFORE", "EXPIRE_AFTER"])
            return Step(time_ms, kind, (chance.randint(1, 10), fault))
        case "kill_transformer":
            return Step(time_ms, kind, (chance.choice([0, _down(chance)]),))
        case "registry_outage":
            return Step(time_ms, kind, (_down(chance),))
        case "pause_client":
            return Step(time_ms, kind, (chance.randint(0, 10), _down(chance)))
        case _:
            return Step(time_ms, kind, (broker_id,))


def _operation(chance: Random) -> Step:
    kind = chance.choice(["create_topic", "delete_topic", "extend_topic", "reassign", "reassign", "elect", "elect"])
    time_ms = _time(chance)
    match kind:
        case "reassign":
            size = chance.choice([2, 3, 3])
            return Step(time_ms, kind, (chance.randint(0, 3), *chance.sample(BROKERS, size)))
        case "elect":
            return Step(time_ms, kind, ())
        case _:
            return Step(time_ms, kind, ())
