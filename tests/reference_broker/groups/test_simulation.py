"""Groups stay alive and keep their promises despite random requests, adversarial timeouts and a failing log.

Method: run seeded sequences, and check each step (`simulation.py`); a failure prints its seed.
"""

from __future__ import annotations

import pytest

from tests.reference_broker.groups.simulation import run
from tests.thorough import sampled

#: The sequences are split into blocks, which several processes can share.
SEQUENCES, BLOCK = 600, 100


@pytest.mark.parametrize("first", sampled(range(0, SEQUENCES, BLOCK), 3))
def test_random_sequences(first):
    for seed in range(first, first + BLOCK):
        run(seed)
