"""Unauthorized requests to a broker of a cluster, and Apache Kafka 3.9.1's answers.

`member_authorization_answers.json` has the answers of a real broker; `tests/kafka/test_zookeeper_acls.py` verifies
them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from kafkawire.reference_broker.apis import load
from kafkawire.reference_broker.requests.api_handlers import Scope
from kafkawire.sdk.protocol.acls import CLUSTER_NAME, WILDCARD, AccessControlEntry, AclBinding, ResourcePattern
from kafkawire.sdk.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kafkawire.sdk.protocol.messages.alter_partition import AlterPartitionRequest
from kafkawire.sdk.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from kafkawire.sdk.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kafkawire.sdk.protocol.messages.stop_replica import StopReplicaRequest
from kafkawire.sdk.protocol.messages.update_metadata import UpdateMetadataRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, ResourceType
from tests.reference_broker.apis.authorization_cases import CASES, Case, Facts

__all__ = ["DIFFERENT", "MEMBER_ANSWERS", "MEMBER_CASES", "MEMBER_OPTIONS", "denials", "without_addresses"]

#: A broker on which everybody may do what no ACL denies.
MEMBER_OPTIONS: Final = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}

#: The names of the cases in which our answer differs from Kafka's, and the reason.
DIFFERENT: Final = {
    "OffsetFetch v1": "Kafka 3.9 leaves out the partitions, so the client would believe that nothing is committed",
    "FindCoordinator v6 of a share partition": "an error text",
    "AlterPartitionReassignments v0": "Kafka repeats the error for each partition",
    **dict.fromkeys(
        (
            *(
                "DescribeConfigs v1 of a group",
                "DescribeConfigs v4 of a group",
                "IncrementalAlterConfigs v0 of a group",
            ),
            *("IncrementalAlterConfigs v1 of a group", "AlterConfigs v0 of metrics", "AlterConfigs v2 of metrics"),
            *("IncrementalAlterConfigs v0 of metrics", "IncrementalAlterConfigs v1 of metrics"),
        ),
        "Kafka 3.9 refuses them as invalid, whoever asks",
    ),
}

#: The texts for a client that lacks a right to the cluster: Kafka 3.9.1's, which shows objects in its memory, and ours.
_LACKS: Final = re.compile(r"Request .* is not authorized\.|needs \w+$")

MEMBER_ANSWERS: Final[dict[str, list[str]]] = json.loads(
    (Path(__file__).parent / "member_authorization_answers.json").read_text()
)

#: Kafka 3.9.1's last version of each API that has later ones.
_LAST: Final = {
    "DescribeCluster": 1,
    "DescribeGroups": 5,
    "DescribeLogDirs": 4,
    "EndTxn": 4,
    "Fetch": 17,
    "ListOffsets": 9,
    "ListTransactions": 1,
    "Metadata": 12,
    "OffsetCommit": 9,
    "OffsetFetch": 9,
    "Produce": 11,
    "TxnOffsetCommit": 4,
    "WriteTxnMarkers": 1,
}


def denials(principal: str) -> list[AclBinding]:
    """Return ACLs that deny everything to a principal."""
    entry = AccessControlEntry(principal, WILDCARD, AclOperation.ALL, AclPermissionType.DENY)
    kinds = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
    resources = [(kind, WILDCARD) for kind in kinds] + [(ResourceType.CLUSTER, CLUSTER_NAME)]
    return [AclBinding(ResourcePattern(*resource), entry) for resource in resources]


def without_addresses(lines: list[str]) -> list[str]:
    """Return what `answers` says, without what differs each time."""
    return sorted({_LACKS.sub("not authorized", line) for line in lines})


def _of_clusters() -> Iterator[Message]:
    """Yield a request of each API that only the brokers of a cluster have."""
    yield LeaderAndIsrRequest(1, controller_epoch=1)
    yield StopReplicaRequest(1, controller_epoch=1)
    yield UpdateMetadataRequest(1, controller_epoch=1)
    yield ControlledShutdownRequest(1)
    yield AlterPartitionRequest(1)
    yield AllocateProducerIdsRequest(1)


def _cases() -> Iterator[Case]:
    """Yield the cases of standalone brokers, in versions that Kafka 3.9.1 has, and then those of clusters."""
    served = {each.api.name: each for each in load(scope=Scope.CLUSTER).handlers.values()}
    names = set()
    for case in CASES:
        name, _, about = case.name.partition(" ")
        last = min(served[name].versions.last, _LAST.get(name, 99)) if name in served else -1
        version = min(case.version, last)
        new = f"{name} v{version} {about.partition(' ')[2]}".rstrip()
        # Requests by id are for the versions that have ids.
        if name in served and new not in names and (version == case.version or "by id" not in about):
            names.add(new)
            yield case._replace(name=new, version=version)
    for request in _of_clusters():
        name = type(request).__name__.removesuffix("Request")
        versions = served[name].versions
        for version in dict.fromkeys((versions.first, versions.last)):
            yield Case(f"{name} v{version}", version, partial(_given, request), ())


def _given(request: Message, facts: Facts) -> Message:
    return request


MEMBER_CASES: Final = tuple(_cases())
