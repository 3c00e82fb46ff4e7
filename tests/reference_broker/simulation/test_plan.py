"""Plans are reproducible and in chronological order, and a few hundred seeds include every kind of fault."""

from __future__ import annotations

from kafkawire.reference_broker.simulation.faults import Faults
from kafkawire.reference_broker.simulation.operations import Operations
from kafkawire.reference_broker.simulation.plan import DURATION_MS, Plan, Step, plan_of


def test_a_seed_has_one_plan() -> None:
    assert plan_of(5) == plan_of(5)
    assert len({plan_of(seed).steps for seed in range(50)}) == 50


def test_steps_are_in_order_and_within_the_run() -> None:
    for seed in range(200):
        times = [step.time_ms for step in plan_of(seed).steps]
        assert times == sorted(times)
        assert all(0 < time_ms <= DURATION_MS for time_ms in times)


def test_every_step_has_somebody_who_carries_it_out_and_every_one_is_drawn() -> None:
    names = {step.name for seed in range(400) for step in plan_of(seed).steps}
    own = {
        name
        for each in (Faults, Operations)
        for name, value in vars(each).items()
        if callable(value) and not name.startswith("_")
    }
    assert names == own - {"end"}


def test_power_is_cut_only_where_records_are_synced() -> None:
    for seed in range(300):
        plan = plan_of(seed)
        assert plan.is_synced or not any(step.name.startswith("cut_power") for step in plan.steps)


def test_a_plan_without_a_part() -> None:
    steps = tuple(Step(number, "kill", (1, 100)) for number in range(4))
    assert Plan(1, True, steps).without(frozenset(steps[1:3])) == Plan(1, True, (steps[0], steps[3]))
    assert str(steps[2]) == "2 ms: kill(1, 100)"
