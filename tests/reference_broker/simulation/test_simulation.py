"""A cluster of three brokers in virtual time survives many histories, and faults planted in the broker are found.

Method: draw faults and operations from each seed, and check invariants after each step (`checkers.py`). `python -m
tools.simulate --seeds SEED` shrinks a failing seed's history and shows it.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kafkawire.reference_broker.simulation.plan import Plan, plan_of
from kafkawire.reference_broker.simulation.simulation import simulate
from tests.reference_broker.simulation.plants import PLANTS, planted

#: The seeds used in every test run.
SEEDS = range(8)

#: The seeds within which every planted fault is found.
PLANT_SEEDS = range(1_000)

SHOW_DIGESTS = """
import sys
from kafkawire.reference_broker.simulation.plan import plan_of
from kafkawire.reference_broker.simulation.simulation import simulate
print([simulate(plan_of(seed)).digest for seed in (3, 7)])
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_what_must_hold_holds(seed: int) -> None:
    outcome = simulate(plan_of(seed))
    assert outcome.violation == "", f"python -m tools.simulate --seeds {seed}"


@pytest.mark.thorough
@pytest.mark.parametrize("first", range(len(SEEDS), 208, 20))
def test_what_must_hold_holds_in_200_more_histories(first: int) -> None:
    for seed in range(first, first + 20):
        outcome = simulate(plan_of(seed))
        assert outcome.violation == "", f"python -m tools.simulate --seeds {seed}"


def test_a_seed_is_replayed_exactly() -> None:
    first, second = simulate(plan_of(5)), simulate(plan_of(5))
    assert first == second
    other = simulate(plan_of(5)._replace(seed=6))
    assert other.digest != first.digest


@pytest.mark.thorough
def test_a_seed_is_replayed_exactly_in_another_process() -> None:
    shown = {
        subprocess.run(
            [sys.executable, "-c", SHOW_DIGESTS],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1", "2")
    }
    assert len(shown) == 1


def test_a_planted_fault_is_found_and_named() -> None:
    with planted("acknowledged_before_the_high_watermark"):
        outcome = simulate(Plan(0, is_synced=False, steps=()))
    assert "is acknowledged, but only" in outcome.violation
    assert outcome.trace[-1].endswith(f"violation: {outcome.violation}")


@pytest.mark.thorough
@pytest.mark.timeout(1_200)  # the slowest takes more than two minutes on an idle core
@pytest.mark.parametrize("name", PLANTS)
def test_every_planted_fault_is_found(name: str) -> None:
    with planted(name):
        assert any(simulate(plan_of(seed)).violation for seed in PLANT_SEEDS)
