"""Transactions end as producers were told, even with random requests, timeouts, restarts and power cuts.

Method: run seeded sequences, and check each step (`simulation.py`); a failure prints its seed.
"""

from __future__ import annotations

import pytest

from tests.reference_broker.transactions.simulation import run
from tests.thorough import sampled

#: The sequences are split into blocks, which several processes can share.
SEQUENCES, BLOCK = 160, 40


@pytest.mark.parametrize("first", sampled(range(0, SEQUENCES, BLOCK), 4))
def test_random_sequences(first):
    for seed in range(first, first + BLOCK):
        run(seed)
