"""The APIs answer alike whether a broker is alone or the only one of a cluster.

Method: the tests of APIs run again, in another process whose fixture `bench` is a member of a cluster. Left out are the
modules with an API of a broker that is alone, with a text of Apache Kafka 4, or with work that takes other turns.
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

#: Why a module is left out.
DIFFERENT = {
    "api_versions": "features of a broker that is alone",
    "consumer_group_describe": "an API of a broker that is alone",
    "consumer_group_heartbeat": "an API of a broker that is alone",
    "create_partitions": "a timeout of no time, which the ZooKeeper mode of Kafka 3.9 answers differently",
    "create_topics": "Kafka 3.9 accepts brokers in an assignment that do not exist",
    "delete_topics": "the store of a broker that is alone",
    "describe_topic_partitions": "an API of a broker that is alone",
    "find_coordinator": "topics that are there at once",
    "init_producer_id": "the file of producer ids of a broker that is alone",
    "large_requests": "turns of other work",
    "list_config_resources": "an API of a broker that is alone",
    "list_groups": "groups of an API of a broker that is alone",
    "list_transactions": "turns of other work",
    "metadata": "the controller hears of a failed log a second later",
    "offset_commit": "groups of an API of a broker that is alone",
    "offset_fetch": "groups of an API of a broker that is alone",
    "txn_offset_commit": "groups of an API of a broker that is alone",
}

MODULES = sorted(path.stem.removeprefix("test_") for path in APIS.glob("test_*.py"))


@pytest.mark.parametrize("api", sampled([each for each in MODULES if each not in DIFFERENT], len(MODULES)))
def test_an_api_of_the_only_broker_of_a_cluster(api: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not thorough"]
    shown = subprocess.run(
        [*command, str(APIS / f"test_{api}.py")],
        cwd=APIS.parent.parent.parent,
        env={**os.environ, MEMBER: "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert shown.returncode == 0, shown.stdout[-5_000:]


def test_left_out_modules_exist() -> None:
    assert DIFFERENT.keys() <= set(MODULES)
