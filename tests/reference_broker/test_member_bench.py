"""The APIs give the same answers, whether a broker is standalone or the only one in a cluster.

Method: run the API tests again in another process, in which the fixture `bench` is a member of a cluster. Leave out
modules that test an API that only standalone brokers have, expect a text of Apache Kafka 4, or do work that takes a
different number of turns.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reference_broker.member_bench import MEMBER
from tests.thorough import sampled

APIS = Path(__file__).parent / "apis"

#: The reason why each module is left out.
DIFFERENT = {
    "api_versions": "features of a standalone broker",
    "consumer_group_describe": "an API of a standalone broker",
    "consumer_group_heartbeat": "an API of a standalone broker",
    "create_partitions": "a zero timeout, which the ZooKeeper mode of Kafka 3.9 answers differently",
    "create_topics": "Kafka 3.9 accepts brokers in an assignment that do not exist",
    "delete_topics": "the store of a standalone broker",
    "describe_topic_partitions": "an API of a standalone broker",
    "find_coordinator": "topics that exist immediately",
    "init_producer_id": "the producer id file of a standalone broker",
    "large_requests": "different turns of work",
    "list_config_resources": "an API of a standalone broker",
    "list_groups": "groups of a standalone broker's API",
    "list_transactions": "different turns of work",
    "metadata": "the controller hears about a failed log a second later",
    "offset_commit": "groups of a standalone broker's API",
    "offset_fetch": "groups of a standalone broker's API",
    "txn_offset_commit": "groups of a standalone broker's API",
}

#: On two idle cores, a module takes two to ten seconds.
TIMEOUT_SECONDS = 300

MODULES = sorted(path.stem.removeprefix("test_") for path in APIS.glob("test_*.py"))


@pytest.mark.timeout(TIMEOUT_SECONDS + 60)
@pytest.mark.parametrize("api", sampled([each for each in MODULES if each not in DIFFERENT], len(MODULES)))
def test_an_api_of_the_only_broker_of_a_cluster(api: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not thorough"]
    shown = subprocess.run(
        [*command, str(APIS / f"test_{api}.py")],
        cwd=APIS.parent.parent.parent,
        env={**os.environ, MEMBER: "1"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert shown.returncode == 0, shown.stdout[-5_000:]


def test_left_out_modules_exist() -> None:
    assert DIFFERENT.keys() <= set(MODULES)
