"""Requests about features, the quorum and registrations, and Apache Kafka 4.3's answer to each.

The answers come from a real broker, which is a cluster of one; `tests/kafka/test_small_admin_apis.py` verifies them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kafkawire.sdk.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kafkawire.sdk.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kafkawire.sdk.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from kafkawire.sdk.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kafkawire.sdk.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import FeatureUpgradeType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.asked_cases import Case, comparable

__all__ = ["admin_cases", "shown_answer"]

Update = UpdateFeaturesRequest.FeatureUpdateKey
Quorum = DescribeQuorumRequest

UPGRADE, SAFE, UNSAFE = (FeatureUpgradeType(number) for number in (1, 2, 3))

_ALL_FAILED = "The update failed for all features since the following feature had an error: "

_WITHOUT_TYPE = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
)

_DIRECTORY = b"\x01" * 16

_ANY = "x" * 22
_CLUSTER_ID = re.compile(r'cluster id "[\w-]{22}"')


def admin_cases(key: ApiKey | None = None) -> list[Case]:
    """Return the cases of an API, or all cases."""
    return [case for case in _cases() if key is None or case.request.SCHEMA.key == key]


def shown_answer(answer: Message | None, version: int) -> Any:
    """Return what is compared of an answer: everything but the id of the cluster."""
    found = comparable(answer, version)
    if isinstance(found, dict) and found.get("error_message"):
        found["error_message"] = _CLUSTER_ID.sub(f'cluster id "{_ANY}"', found["error_message"])
    return found


def _cases() -> Iterator[Case]:
    yield from _features()
    yield from _quorum()
    yield from _registrations()


def _refused(name: str, feature: str, level: int, kind: int, problem: str, response: Message | None = None) -> Case:
    """Return a case in which a change to a feature is refused; `response` is Kafka's if Kafka would accept it."""
    is_ours = response is not None
    request = UpdateFeaturesRequest(feature_updates=[Update(feature, level, upgrade_type=kind)], validate_only=is_ours)
    text = f"{_ALL_FAILED}Invalid update version {level} for feature {feature}. {problem}"
    refusal = UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=text)
    return Case(name, request, response if is_ours else refusal, refusal if is_ours else None)


def _done(*names: str) -> UpdateFeaturesResponse:
    """Return the response to accepted changes; it names the features up to version 1."""
    results = [UpdateFeaturesResponse.UpdatableFeatureResult(name, 0, "NONE") for name in names]
    return UpdateFeaturesResponse(error_message=None, results=results)


def _features() -> Iterator[Case]:
    yield Case("no change", UpdateFeaturesRequest(), _done())
    for name, update in {
        "the present level": Update("group.version", 1, upgrade_type=SAFE),
        "the present metadata version": Update("metadata.version", 30, upgrade_type=UNSAFE),
        "the present version of KRaft": Update("kraft.version", 1, upgrade_type=SAFE),
        "the present level in any version": Update("group.version", 1),
    }.items():
        request = UpdateFeaturesRequest(feature_updates=[update], validate_only=update.upgrade_type != UPGRADE)
        yield Case(name, request, _done(update.feature))
    yield _refused("an unknown feature", "x", 1, UPGRADE, "Local controller 1 does not support this feature.")
    yield _refused("an unknown feature at level 0", "x", 0, UPGRADE, "Feature x not found.")
    yield _refused(
        "a level that is too high", "group.version", 2, UPGRADE, "Local controller 1 only supports versions 0-1"
    )
    yield _refused(
        "a metadata version that is too high",
        "metadata.version",
        31,
        UPGRADE,
        "Local controller 1 only supports versions 7-30",
    )
    yield _refused(
        "a metadata version that is too low",
        "metadata.version",
        6,
        UNSAFE,
        "Local controller 1 only supports versions 7-30",
    )
    yield _refused("a negative level", "group.version", -1, UPGRADE, "A feature version cannot be less than 0.")
    yield _refused("a lower level without a type", "group.version", 0, UPGRADE, _WITHOUT_TYPE)
    for kind in (0, 9):
        problem = "The controller does not support the given upgrade type."
        yield _refused(f"upgrade type {kind}", "group.version", 1, kind, problem)
    yield _refused("a lower version of KRaft", "kraft.version", 0, SAFE, "Can't downgrade the version of this feature.")
    lower = "Can't downgrade the version of this feature."
    yield _refused("a lower level that Kafka would accept", "group.version", 0, SAFE, lower, _done("group.version"))
    for name, level, kind, problem in (
        (
            "a lower metadata version",
            29,
            SAFE,
            "Refusing to perform the requested downgrade because it might delete metadata information.",
        ),
        (
            "a lower metadata version, whatever is lost",
            7,
            UNSAFE,
            "Unsafe metadata downgrade is not supported in this version.",
        ),
    ):
        text = f"{_ALL_FAILED}Unsupported metadata.version downgrade from 30 to {level}. {problem}"
        response = UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=text)
        update = Update("metadata.version", level, upgrade_type=kind)
        yield Case(name, UpdateFeaturesRequest(feature_updates=[update], validate_only=True), response)
    updates = [Update("group.version", 1), Update("x", 1), Update("y", -1)]
    problem = "Invalid update version 1 for feature x. Local controller 1 does not support this feature."
    yield Case(
        "one of several features is refused",
        UpdateFeaturesRequest(feature_updates=updates),
        UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=_ALL_FAILED + problem),
    )


def _quorum() -> Iterator[Case]:
    Topic, Partition = DescribeQuorumResponse.TopicData, DescribeQuorumResponse.PartitionData
    text = "This server does not host this topic-partition."
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    yield Case("no topic", Quorum(), DescribeQuorumResponse())
    yield Case(
        "another topic",
        Quorum([Quorum.TopicData("x", [Quorum.PartitionData(0), Quorum.PartitionData(7)])]),
        DescribeQuorumResponse(topics=[Topic("x", [Partition(0, code, text), Partition(7, code, text)])]),
    )
    yield Case(
        "another partition",
        Quorum([Quorum.TopicData("__cluster_metadata", [Quorum.PartitionData(1)])]),
        DescribeQuorumResponse(topics=[Topic("__cluster_metadata", [Partition(1, code, text)])]),
    )
    for request, kind in (
        (AddRaftVoterRequest(_ANY, 1_000, 7, _DIRECTORY), AddRaftVoterResponse),
        (RemoveRaftVoterRequest(_ANY, 7, _DIRECTORY), RemoveRaftVoterResponse),
    ):
        text = f'The given id "{_ANY}" doesn\'t match the cluster id "{_ANY}"'
        yield Case("another cluster", request, kind(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, error_message=text))


def _registrations() -> Iterator[Case]:
    for broker_id in (9, -1):
        text = f"Broker ID {broker_id} is not currently registered"
        response = UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=text)
        yield Case(f"broker {broker_id}", UnregisterBrokerRequest(broker_id), response)
