"""Groups with members of both protocols stay alive and keep their promises despite random requests, adversarial
timeouts, changing topics and a failing log.

Method: run seeded sequences, and check each step (`consumer_simulation.py`); a failure prints its seed.
"""

from __future__ import annotations

import pytest

from tests.reference_broker.groups.consumer_simulation import run
from tests.thorough import sampled

#: The sequences are split into blocks, which several processes can share.
SEQUENCES, BLOCK = 600, 100

#: Sequences that once failed: an upgrade by a member without a subscription, a member that takes another's place, and a
#: topic deleted while the group had only classic members.
FOUND = (551, 814, 890, 54_077)


@pytest.mark.parametrize("first", sampled(range(0, SEQUENCES, BLOCK), 6))
def test_random_sequences(first):
    for seed in range(first, first + BLOCK):
        run(seed)


@pytest.mark.parametrize("seed", FOUND)
def test_sequences_in_which_something_was_lost(seed):
    run(seed)
