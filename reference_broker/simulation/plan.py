"""The external events in a cluster: faults and operations, each with its time, drawn from a seed before the run.

A plan is a value: parts of it can be left out and the rest run again, which is how the plan of a failing seed is
shrunk.
"""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

from kafkawire.reference_broker.simulation.cluster import BROKERS

__all__ = ["DURATION_MS", "PARTITIONS", "Plan", "Step", "plan_of"]

#: When the last fault begins; after that, everything is repaired.
DURATION_MS: Final = 2_500

#: When the first fault begins: once the cluster is up.
_FIRST_MS: Final = 150

_FAULTS_MAX: Final = 6
_OPERATIONS_MAX: Final = 4

#: The share of plans that kill the brokers one after another.
_ONE_BY_ONE_SHARE: Final = 0.15

#: The share of plans that move the leadership of a partition back and forth.
_MOVES_SHARE: Final = 0.3

#: The share of plans that move the leadership of a partition away and back, unnoticed by one of the followers.
_AWAY_AND_BACK_SHARE: Final = 0.15

#: The share of plans that only delay a leader's request to add a follower until after the follower has failed again.
_LATE_ISR_SHARE: Final = 0.08

#: The share of network cuts that are accompanied by another fault.
_SECONDS_SHARE: Final = 0.6

#: How long a request may be delayed; brokers give up after 700 ms, and clients after 1.5 s.
_DELAY_MS_MAX: Final = 1_300

#: The number of partitions that are reassigned.
PARTITIONS: Final = 7

#: Requests between brokers, and requests whose answers are promises that a client relies on.
_APIS: Final = (
    "ADD_PARTITIONS_TO_TXN",
    *["ALTER_PARTITION"] * 3,
    "CONTROLLED_SHUTDOWN",
    "END_TXN",
    "FETCH",
    "HEARTBEAT",
    "INIT_PRODUCER_ID",
    "JOIN_GROUP",
    "LEADER_AND_ISR",
    "OFFSET_COMMIT",
    "PRODUCE",
    "SYNC_GROUP",
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
    if chance.random() < _LATE_ISR_SHARE:
        return Plan(seed, is_synced, tuple(sorted(_late_isr(chance))))
    steps = [_fault(chance, is_synced) for _ in range(chance.randint(1, _FAULTS_MAX))]
    steps += [second for first in steps for second in _second(chance, first)]
    steps += [_operation(chance) for _ in range(chance.randint(0, _OPERATIONS_MAX))]
    if chance.random() < _MOVES_SHARE:
        steps += _moves(chance, _time(chance))
    if chance.random() < _ONE_BY_ONE_SHARE:
        steps += _one_by_one(chance)
    if chance.random() < _AWAY_AND_BACK_SHARE:
        steps += _away_and_back(chance)
    return Plan(seed, is_synced, tuple(sorted(steps)))


def _time(chance: Random) -> int:
    return chance.randint(_FIRST_MS, DURATION_MS)


def _down(chance: Random) -> int:
    """Return how long something is down: often for less than a session timeout, sometimes for longer."""
    return chance.choice([chance.randint(20, 200), chance.randint(200, 1_500)])


def _fault(chance: Random, is_synced: bool) -> Step:
    broker_id = chance.choice(BROKERS)
    kinds = ["kill", "kill", "stop", "pause", "cut", "cut", "cut_one_way", "break_connections", "disconnect", "expire"]
    kinds += [
        "registry_fault",
        "registry_outage",
        "depose",
        "replace_controller",
        "fill_disk",
        "jump_clock",
        "kill_transformer",
        "pause_client",
        "pause_client",
        "kill_member",
    ]
    if is_synced:
        kinds += ["cut_power", "cut_power", "cut_power_in_work", "fail_disk", "fail_disk"]
    kinds += ["at_request"] * 6
    kind = chance.choice(kinds)
    time_ms = _time(chance)
    match kind:
        case "kill" | "stop" | "pause" | "disconnect" | "cut_power":
            return Step(time_ms, kind, (broker_id, _down(chance)))
        case "at_request":
            actions = [
                "kill",
                "kill",
                "pause",
                "cut",
                "expire",
                "replace",
                "delay",
                *(["cut_power"] if is_synced else []),
            ]
            arguments = chance.choice(_APIS), chance.randint(1, 4), chance.choice(["sender", "receiver"])
            action, down_ms = chance.choice(actions), _down(chance)
            if action == "delay":
                # A client would otherwise give up, and its request could arrive after the next one.
                down_ms = min(down_ms, _DELAY_MS_MAX)
            return Step(time_ms, kind, (*arguments, action, down_ms))
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
        case "replace_controller":
            return Step(time_ms, kind, (chance.randint(1, 8), chance.randint(50, 500)))
        case "registry_outage":
            return Step(time_ms, kind, (_down(chance),))
        case "pause_client":
            return Step(time_ms, kind, (chance.randint(0, 12), _down(chance)))
        case "fill_disk":
            return Step(time_ms, kind, (broker_id, chance.randint(0, 20_000), _down(chance)))
        case "jump_clock":
            return Step(time_ms, kind, (broker_id, chance.choice([-1, 1]) * chance.choice([200, 1_000, 600_000])))
        case "kill_member" | "depose":
            return Step(time_ms, kind, ())
        case _:
            return Step(time_ms, kind, (broker_id,))


def _one_by_one(chance: Random) -> list[Step]:
    """Return faults that leave one broker in sync, which then dies just before or after the others come back."""
    time_ms, down_ms = chance.randint(_FIRST_MS, DURATION_MS // 2), chance.randint(750, 1_000)
    *others, last = chance.sample(BROKERS, len(BROKERS))
    steps = [Step(time_ms + chance.randint(0, 50), "kill", (broker_id, down_ms)) for broker_id in others]
    time_ms += down_ms + chance.randint(-100, 200)
    return [*steps, Step(time_ms, "kill", (last, chance.randint(800, 1_500)))]


def _away_and_back(chance: Random) -> list[Step]:
    """Return moves of a leadership to another broker and back; if that is the controller, one follower misses both."""
    number, time_ms = _partition(chance), chance.randint(_FIRST_MS, DURATION_MS // 2)
    leader, other, follower = chance.sample(BROKERS, len(BROKERS))
    steps = [Step(time_ms, "move_leader", (number, leader))]
    time_ms += chance.randint(100, 300)
    steps.append(Step(time_ms, "cut_one_way", (f"b{other}", f"b{follower}", chance.randint(200, 600))))
    for broker_id in other, leader:
        time_ms += chance.randint(5, 100)
        steps.append(Step(time_ms, "move_leader", (number, broker_id)))
    return steps


def _late_isr(chance: Random) -> list[Step]:
    """Return two pauses of a follower, between which a leader's request to add it to the ISR is delayed for long."""
    broker_id, time_ms = chance.choice(BROKERS), chance.randint(_FIRST_MS, 500)
    steps = [Step(time_ms, "pause", (broker_id, chance.randint(600, 800)))]
    delay = "ALTER_PARTITION", chance.randint(1, 4), "sender", "delay", chance.randint(1_200, 1_800)
    steps.append(Step(time_ms + chance.randint(0, 600), "at_request", delay))
    return [*steps, Step(time_ms + chance.randint(1_400, 1_700), "pause", (broker_id, chance.randint(800, 1_200)))]


def _second(chance: Random, first: Step) -> list[Step]:
    """Return what else happens while the effect of a fault lasts: a broker that is cut off leads, or must not."""
    if first.name == "replace_controller":
        return _moves(chance, min(first.time_ms + chance.randint(0, 50), DURATION_MS))
    if first.name not in ("cut", "cut_one_way") or chance.random() > _SECONDS_SHARE:
        return []
    down_ms, broker_id = int(first.arguments[-1]), chance.choice(BROKERS)
    time_ms = min(first.time_ms + chance.randint(down_ms // 2, down_ms), DURATION_MS)
    match chance.choice(["expire", "kill", "move_leader", "moves", "depose"]):
        case "move_leader":
            return [Step(time_ms, "move_leader", (_partition(chance), broker_id))]
        case "moves":
            return _moves(chance, time_ms)
        case "kill":
            return [Step(time_ms, "kill", (broker_id, _down(chance)))]
        case "expire":
            return [Step(time_ms, "expire", (broker_id,))]
        case _:
            return [Step(time_ms, "depose")]


def _partition(chance: Random) -> int:
    return chance.randrange(PARTITIONS)


def _moves(chance: Random, time_ms: int) -> list[Step]:
    """Return several moves of a partition's leadership in quick succession, between brokers that are in sync."""
    number = _partition(chance)
    moves = []
    for _ in range(chance.randint(2, 4)):
        moves.append(Step(time_ms, "move_leader", (number, chance.choice(BROKERS))))
        time_ms = min(time_ms + chance.randint(5, 300), DURATION_MS)
    return moves


def _operation(chance: Random) -> Step:
    kinds = ["create_topic", "delete_topic", "extend_topic", "reassign", "reassign", "elect", "elect"]
    kinds += ["move_leader", "delete_records", "delete_records", "elect_unclean"]
    kind, time_ms = chance.choice(kinds), _time(chance)
    match kind:
        case "delete_records":
            return Step(time_ms, kind, (chance.randrange(2), chance.choice([25, 50, 75, 100])))
        case "move_leader":
            return Step(time_ms, kind, (_partition(chance), chance.choice(BROKERS)))
        case "reassign":
            size = chance.choice([2, 3, 3])
            return Step(time_ms, kind, (_partition(chance), *chance.sample(BROKERS, size)))
        case _:
            return Step(time_ms, kind, ())
