"""Whatever happens to three brokers, no acknowledged record is lost, and all replicas end up in sync and identical.

Method: run histories determined by seeds (see `three_brokers`), each of which ends with a period without faults.
"""

from __future__ import annotations

import pytest

from tests.reference_broker.replicas.three_brokers import ThreeBrokers
from tests.thorough import sampled

_STEPS = 1_500


@pytest.mark.parametrize("seed", sampled(range(100), 25))
def test_what_was_acknowledged_is_never_lost(seed: int) -> None:
    brokers = ThreeBrokers(seed)
    for _ in range(_STEPS):
        brokers.step()
    brokers.settle()


def test_much_is_acknowledged_in_spite_of_everything() -> None:
    """Otherwise, the histories would prove less than they seem to."""
    brokers = ThreeBrokers(1)
    for _ in range(_STEPS):
        brokers.step()
    assert min(len(each) for each in brokers.acknowledged) > 3
    assert min(len(each) for each in brokers.committed) > 3
