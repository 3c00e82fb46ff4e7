"""The reference broker answers random sequences of transactional requests as Apache Kafka does.

Method: send each request to both, in the same order, through the codecs of the same version. Both must answer with the
same codes and epochs. After each step, once Apache Kafka has written its markers, transactions, producers, committed
offsets, high watermarks and last stable offsets must be the same; at the end, so must the records that a consumer
fetches. Producers have different ids on each broker. Timeouts are so long that only the order of requests matters,
unless the test waits for a timeout. Two kinds of requests are left out: those made while markers are being written,
which takes Apache Kafka some time and the reference broker none; and those that bring a later epoch of a producer into
a log, after which Apache Kafka's coordinator never finishes the transaction. KAFKAWIRE_SEQUENCES sets the number of
sequences; a failure prints its seed.
"""

from __future__ import annotations

import os
import uuid
from random import Random

import pytest

from tests.kafka.apache import ApacheKafka
from tests.kafka.transacting import Pair, new_bench, open_line
from tests.reference_broker.transactions.sequences import Asked, Mark, Produce, Script, Share, Wait

SEQUENCES = int(os.environ.get("KAFKAWIRE_SEQUENCES", "60"))

#: One second per sequence is ample; the rest is for starting a node.
pytestmark = pytest.mark.timeout(120 + SEQUENCES)
STEPS = 25

#: Long enough that nothing times out.
TIMEOUTS_MS = (300_000, 900_000)
WRONG_TIMEOUTS_MS = (0, -1, 900_001, 2**31 - 1)

SHARES = (Share(), Share(), Share(marks=1), Share(deletes=0.4), Share(waits=1))


def run(pair: Pair, seed: int) -> None:
    """Run a sequence."""
    random = Random(seed)
    script = Script(random, TIMEOUTS_MS, WRONG_TIMEOUTS_MS, random.choice(SHARES))
    for _ in range(STEPS):
        asked = script.next()
        if not is_left_out(script, asked):
            script.answered(asked, pair.do(asked, is_passing=bool(script.plan) and isinstance(script.plan[0], Wait)))
    pair.compare_fetches()
    pair.end()


def is_left_out(script: Script, asked: Asked) -> bool:
    """Return whether a request writes with an epoch that its transactional producer has not received yet.

    Only a marker from a client or a batch outside transactions can do so.
    """
    if not (isinstance(asked, Mark) or (isinstance(asked, Produce) and asked.transactional_id is None)):
        return False
    epochs = [
        one.producer.epoch
        for one in script.known
        if one.transactional_id is not None and one.producer.producer_id == asked.producer.producer_id
    ]
    return bool(epochs) and asked.producer.epoch > max(epochs)


def test_answers_are_those_of_apache_kafka(kafka: ApacheKafka) -> None:
    prefix = uuid.uuid4().hex[:8]
    bench, line = new_bench(), open_line(kafka.bootstrap)
    for seed in range(SEQUENCES):
        try:
            run(Pair(bench, line, f"{prefix}-{seed}-"), seed)
        except (AssertionError, TimeoutError) as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    line.frames.close()
