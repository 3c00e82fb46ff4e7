"""The example prints the four internal topics of a real Apache Kafka node.

Method: use a node with groups of each protocol, a transactional producer and a share group; then parse the example's
output.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.apache import ApacheKafka
from tests.kafka.stored_files import COMPRESSED

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "internal_topics.py"


@pytest.fixture(scope="module")
def printed(filled_kafka: ApacheKafka) -> list[dict[str, Any]]:
    folder = filled_kafka.data_dir / "__cluster_metadata-0"
    result = subprocess.run(
        [sys.executable, str(EXAMPLE), filled_kafka.bootstrap, str(folder)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    return [json.loads(line) for line in result.stdout.splitlines()]


def of_type(printed: list[dict[str, Any]], topic: str, name: str) -> list[dict[str, Any]]:
    return [each for each in printed if (each["topic"], each["name"]) == (topic, name)]


def test_everything_is_decoded(printed: list[dict[str, Any]]) -> None:
    assert [each for each in printed if "error" in each] == []


def test_consumer_offsets(printed: list[dict[str, Any]]) -> None:
    topic = "__consumer_offsets"
    commits = of_type(printed, topic, "OffsetCommit")
    values = {each["key"]["group"]: each["value"] for each in commits}  # the last record of each group
    assert values["consumer-group"]["offset"] == 1
    assert values["classic-group"] is None, "a deleted group must leave a tombstone"
    (first, *_) = [each for each in commits if each["key"]["group"] == "classic-group"]
    assert (first["key"]["topic"], first["key"]["partition"], first["value"]["offset"]) == ("stamped", 0, 1)
    assert of_type(printed, topic, "GroupMetadata")[-1]["value"] is None
    names = {each["name"] for each in printed if each["topic"] == topic}
    assert {"ConsumerGroupMemberMetadata", "ShareGroupMemberMetadata", "ShareGroupStatePartitionMetadata"} <= names


def test_transaction_state(printed: list[dict[str, Any]]) -> None:
    found = of_type(printed, "__transaction_state", "TransactionLog")
    assert {each["key"]["transactionalId"] for each in found} == {"mover"}
    last = found[-1]["value"]
    assert (last["transactionStatus"], last["transactionPartitions"]) == (4, [])  # CompleteCommit
    ongoing = [each["value"] for each in found if each["value"]["transactionStatus"] == 1]
    assert {partition["topic"] for value in ongoing for partition in value["transactionPartitions"]} == {"moved"}


def test_share_group_state(printed: list[dict[str, Any]]) -> None:
    snapshot, *_ = of_type(printed, "__share_group_state", "ShareSnapshot")
    assert snapshot["key"]["groupId"] == "sharers"
    values = [each["value"] for each in printed if each["topic"] == "__share_group_state"]
    acknowledged = [
        batch["lastOffset"] for value in values for batch in value["stateBatches"] if batch["deliveryState"] == 2
    ]
    assert acknowledged, values


def test_cluster_metadata(printed: list[dict[str, Any]]) -> None:
    topics = of_type(printed, "__cluster_metadata", "TopicRecord")
    assert {each["value"]["name"] for each in topics} >= {*COMPRESSED.values(), "moved", "__share_group_state"}
    assert of_type(printed, "__cluster_metadata", "PartitionRecord")
    (feature, *_) = [
        each["value"]
        for each in of_type(printed, "__cluster_metadata", "FeatureLevelRecord")
        if each["value"]["name"] == "share.version"
    ]
    assert feature["featureLevel"] >= 1


@pytest.mark.parametrize("arguments", [[], ["a", "b", "c"]])
def test_wrong_arguments(arguments: list[str]) -> None:
    found = subprocess.run([sys.executable, str(EXAMPLE), *arguments], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == "usage: internal_topics.py BOOTSTRAP_SERVERS [METADATA_FOLDER]\n"
