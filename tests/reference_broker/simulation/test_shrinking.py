"""Shrinking removes steps that are not needed to reproduce a failure.

Method: shrink runs that fail if certain steps are in the plan.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.simulation.plan import Plan, Step
from kafkawire.reference_broker.simulation.shrinking import shrink
from kafkawire.reference_broker.simulation.simulation import Outcome

STEPS = tuple(Step(number, "kill", (number,)) for number in range(9))


@pytest.mark.parametrize("needed", [(), (3,), (0, 8), (2, 3, 7), tuple(range(9))])
def test_only_what_is_needed_stays(needed: tuple[int, ...]) -> None:
    def run(plan: Plan) -> Outcome:
        is_failing = {STEPS[number] for number in needed} <= {*plan.steps}
        return Outcome("it fails" if is_failing else "", len(plan.steps), 0, ())

    plan, outcome = shrink(Plan(1, False, STEPS), run)
    assert plan.steps == tuple(STEPS[number] for number in needed)
    assert outcome == Outcome("it fails", len(needed), 0, ())
