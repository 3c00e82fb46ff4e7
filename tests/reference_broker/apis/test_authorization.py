"""Every API checks what its client may do, where Apache Kafka checks it, and gives Kafka's answer.

Method: send the requests of a table, which a real Kafka has answered, to a broker without sockets: without any right,
with all the rights that the request needs, and with all but one. Then rights that come and go while a client is
connected, and the requests between brokers.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kafkawire.reference_broker.apis import load
from kafkawire.reference_broker.metadata.principal import KafkaPrincipal
from kafkawire.reference_broker.requests.api_handlers import Scope
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.peer import Peer
from kafkawire.reference_broker.storage.checkpoints import ACLS
from kafkawire.reference_broker.storage.disk.disk import replace_file
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.acls import AccessControlEntry, AclBinding, ResourcePattern
from kafkawire.sdk.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from kafkawire.sdk.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kafkawire.sdk.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.messages.share_fetch import ShareFetchRequest
from kafkawire.sdk.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kafkawire.sdk.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkawire.sdk.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kafkawire.sdk.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kafkawire.sdk.protocol.tables.enums import (
    AclOperation,
    AclPermissionType,
    CoordinatorType,
    PatternType,
    ResourceType,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.apis.authorization_bench import ADMIN, ALICE, STANDARD, AuthorizedBench
from tests.reference_broker.apis.authorization_cases import (
    ANSWERS,
    CASES,
    OPEN,
    TOPIC,
    Case,
    Right,
    answers,
    name_of,
    on_cluster,
    on_group,
    on_topic,
)
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.storage.produced_batches import produced

Op = AclOperation


@pytest.fixture(scope="module")
def shared() -> AuthorizedBench:
    return AuthorizedBench()


@pytest.fixture
def bench(shared: AuthorizedBench) -> AuthorizedBench:
    """A broker that many tests share; Alice has no rights."""
    shared.revoke_all()
    shared.peer.principal = ALICE
    return shared


def test_every_api_has_a_case() -> None:
    covered = {case.name.partition(" ")[0] for case in CASES}
    served = {each.api.name for key, each in load().handlers.items() if key not in OPEN}
    assert served - covered == set()


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_nothing_is_allowed_without_a_right(bench: AuthorizedBench, case: Case) -> None:
    assert bench.answers(case) == ANSWERS[case.name]["denied"]


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_rights_suffice(bench: AuthorizedBench, case: Case) -> None:
    bench.give(*case.rights)
    assert bench.answers(case) == ANSWERS[case.name]["allowed"]


@pytest.mark.parametrize("case", [case for case in CASES if len(case.rights) > 1], ids=name_of)
def test_each_right_is_needed(bench: AuthorizedBench, case: Case) -> None:
    for missing in case.rights:
        bench.revoke_all()
        bench.give(*(right for right in case.rights if right is not missing))
        assert bench.answers(case) != ANSWERS[case.name]["allowed"], missing


def test_a_superuser_needs_no_right() -> None:
    bench = AuthorizedBench()
    bench.peer.principal = ADMIN
    assert [case for case in CASES if any("AUTHORIZATION" in line for line in bench.answers(case))] == []


# Rights that come and go.


def fetched(bench: AuthorizedBench, session_id: int, epoch: int, *, wait_ms: int = 0) -> Any:
    parts = [] if session_id else [FetchRequest.FetchPartition(0, partition_max_bytes=1_000)]
    topics = [FetchRequest.FetchTopic(TOPIC, partitions=parts)] if parts else []
    request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, session_id=session_id, session_epoch=epoch, topics=topics)
    return bench.ask(request, 12)


def codes_in(response: Any) -> list[int]:
    return [part.error_code for topic in response.responses for part in topic.partitions]


def test_a_fetch_session_loses_and_regains_its_rights(bench: AuthorizedBench) -> None:
    bench.give(on_topic(Op.READ))
    first = fetched(bench, 0, 0)
    assert codes_in(first) == [ErrorCode.NONE]
    assert codes_in(fetched(bench, first.session_id, 1)) == []
    bench.revoke_all()
    assert codes_in(fetched(bench, first.session_id, 2)) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert codes_in(fetched(bench, first.session_id, 3)) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    bench.give(on_topic(Op.READ))
    assert codes_in(fetched(bench, first.session_id, 4)) == [ErrorCode.NONE]


def test_a_waiting_fetch_gets_nothing_once_its_right_is_gone(bench: AuthorizedBench) -> None:
    bench.give(on_topic(Op.READ))
    first = fetched(bench, 0, 0)
    waiting = fetched(bench, first.session_id, 1, wait_ms=10_000)
    assert isinstance(waiting, DelayedOperation)
    bench.revoke_all()
    bench.peer = Peer(bench.peer.listener, "host")  # another client
    bench.peer.principal = ADMIN
    assert not bench.produce(produced(b"secret"), TOPIC).error_code
    assert waiting.response is not None
    assert codes_in(waiting.response) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


def test_a_follower_loses_its_right(bench: AuthorizedBench) -> None:
    bench.give(on_cluster(Op.CLUSTER_ACTION))
    follower = FetchRequest(replica_id=7, session_id=0, session_epoch=0)
    follower.topics = [FetchRequest.FetchTopic(TOPIC, partitions=[FetchRequest.FetchPartition(0)])]
    first = bench.ask(follower, 12)
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED not in codes_in(first)
    bench.revoke_all()
    bench.give(on_topic(Op.READ))
    again = bench.ask(FetchRequest(replica_id=7, session_id=first.session_id, session_epoch=1), 12)
    assert codes_in(again) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


def test_only_some_topics_of_a_request(bench: AuthorizedBench) -> None:
    bench.give(on_topic(Op.WRITE))
    Data, Part = ProduceRequest.TopicProduceData, ProduceRequest.PartitionProduceData
    data = [Data(name, partition_data=[Part(0, produced(b"v"))]) for name in ("other", TOPIC)]
    response = bench.ask(ProduceRequest(None, -1, 1_000, data), 9)
    assert [topic.partition_responses[0].error_code for topic in response.responses] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.NONE,
    ]


# Topics named twice, and hidden topics.


def deleted(bench: AuthorizedBench, *states: tuple[str | None, bytes]) -> list[tuple[str | None, bytes, int]]:
    asked = [DeleteTopicsRequest.DeleteTopicState(*state) for state in states]
    response = bench.ask(DeleteTopicsRequest(asked, timeout_ms=1_000))
    return [(each.name, bytes(each.topic_id), each.error_code) for each in response.responses]


def test_a_name_and_an_id_that_mean_the_same_topic() -> None:
    bench = AuthorizedBench()
    topic_id, denied = bench.facts.topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    both = (TOPIC, ZERO_UUID), (None, topic_id)
    assert deleted(bench, *both) == [(TOPIC, ZERO_UUID, denied), (None, topic_id, denied)]
    bench.give(on_topic(Op.DESCRIBE))
    assert deleted(bench, *both) == [(TOPIC, ZERO_UUID, denied), (TOPIC, topic_id, denied)]
    bench.give(on_topic(Op.DELETE))
    assert deleted(bench, *both) == [(TOPIC, topic_id, ErrorCode.INVALID_REQUEST)]
    assert deleted(bench, both[1]) == [(TOPIC, topic_id, ErrorCode.NONE)]


def test_topics_that_may_not_be_described_are_last(bench: AuthorizedBench) -> None:
    bench.give(on_topic(Op.DESCRIBE))
    Asked = MetadataRequest.MetadataRequestTopic
    request = MetadataRequest([Asked(name="hidden"), Asked(name=TOPIC)], True)
    topics = bench.ask(request, 9).topics
    assert [(each.name, each.error_code) for each in topics] == [
        (TOPIC, ErrorCode.NONE),
        ("hidden", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]


# KIP-848 groups.


def test_expressions_match_only_topics_that_the_member_may_describe() -> None:
    bench = AuthorizedBench()
    bench.peer.principal = ADMIN
    for name in ("orders-a", "orders-b"):
        bench.create(name)
    bench.peer.principal = ALICE
    prefixed = ResourcePattern(ResourceType.TOPIC, "orders-a", PatternType.PREFIXED)
    allowed = AccessControlEntry(str(ALICE), "*", Op.DESCRIBE, AclPermissionType.ALLOW)
    bench.give(on_group(Op.READ, "g"), on_group(Op.DESCRIBE, "g"), AclBinding(prefixed, allowed))

    def beat(epoch: int) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            "g", "m", epoch, rebalance_timeout_ms=1_000, subscribed_topic_regex="orders-.*", topic_partitions=[]
        )
        return bench.ask(request)

    epoch = beat(0).member_epoch
    for _ in range(5):
        bench.advance(100)
        answer = beat(epoch)
        epoch = answer.member_epoch
    described = ConsumerGroupDescribeRequest(["g"])
    (group,) = bench.ask(described).groups
    (member,) = group.members
    assert [each.topic_name for each in member.target_assignment.topic_partitions] == ["orders-a"]
    bench.revoke_all()
    bench.give(on_group(Op.DESCRIBE, "g"))
    (hidden,) = bench.ask(described).groups
    assert (hidden.error_code, len(hidden.members)) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0)
    assert hidden.error_message == "The group has described topic(s) that the client is not authorized to describe."


# Delegation tokens.


def test_tokens_of_others_are_shown_by_either_right() -> None:
    bench = AuthorizedBench()
    bench.peer.principal = ADMIN
    made = bench.ask(CreateDelegationTokenRequest("User", "bob", max_lifetime_ms=-1))
    assert not made.error_code
    bench.peer.principal = ALICE

    def shown() -> list[str]:
        return [token.token_id for token in bench.ask(DescribeDelegationTokenRequest(None)).tokens]

    assert shown() == []
    for right in (
        Right(Op.DESCRIBE_TOKENS, ResourceType.USER, "User:bob"),
        Right(Op.DESCRIBE, ResourceType.DELEGATION_TOKEN, made.token_id),
    ):
        bench.revoke_all()
        assert shown() == []
        bench.give(right)
        assert shown() == [made.token_id]
    bench.peer.principal = KafkaPrincipal("User", "bob")
    bench.revoke_all()
    assert shown() == [made.token_id]


# Share groups.


def test_a_share_group_hides_its_topics_and_they_cannot_be_fetched() -> None:
    bench = AuthorizedBench(group_share_assignment_interval_ms=0, share_coordinator_state_topic_num_partitions=1)
    bench.give(on_group(Op.READ, "s"), on_group(Op.DESCRIBE, "s"), on_topic(Op.DESCRIBE))

    def asked(request: Any) -> Any:
        response = bench.ask(request)
        for _ in range(20):
            if not isinstance(response, DelayedOperation) or response.response is not None:
                break
            bench.advance(100)
        return response.response if isinstance(response, DelayedOperation) else response

    joined = asked(ShareGroupHeartbeatRequest("s", "m", 0, subscribed_topic_names=[TOPIC]))
    assert not joined.error_code
    for _ in range(5):
        bench.advance(100)
        joined = asked(ShareGroupHeartbeatRequest("s", "m", joined.member_epoch))
        assert not joined.error_code
    (group,) = asked(ShareGroupDescribeRequest(["s"], True)).groups
    assert (group.error_code, group.authorized_operations) == (ErrorCode.NONE, 1 << Op.READ | 1 << Op.DESCRIBE)
    assert [topic.topic_name for topic in group.members[0].assignment.topic_partitions] == [TOPIC]
    fetched_topic = ShareFetchRequest.FetchTopic(bench.facts.topic_id, [ShareFetchRequest.FetchPartition(0)])
    (topic,) = asked(ShareFetchRequest("s", "m", max_records=1, topics=[fetched_topic])).responses
    assert [part.error_code for part in topic.partitions] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    bench.revoke_all()
    bench.give(on_group(Op.DESCRIBE, "s"))
    unknown, hidden = asked(ShareGroupDescribeRequest(["s", "other"])).groups
    assert (unknown.group_id, unknown.error_code) == ("other", ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert (hidden.error_code, len(hidden.members)) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0)


def test_what_an_application_of_streams_may_create_and_see() -> None:
    bench = AuthorizedBench(group_streams_initial_rebalance_delay_ms=0, group_streams_assignment_interval_ms=0)
    bench.give(on_group(Op.READ, "s"), on_group(Op.DESCRIBE, "s"))
    for name in (TOPIC, "s-c", "s-d"):
        bench.give(on_topic(Op.DESCRIBE, name))
    Info = StreamsGroupHeartbeatRequest.TopicInfo
    part = StreamsGroupHeartbeatRequest.Subtopology("0", [TOPIC], [], [Info("s-c"), Info("s-d")])
    joining = {
        "rebalance_timeout_ms": 60_000,
        "topology": StreamsGroupHeartbeatRequest.Topology(0, [part]),
        **{f"{role}_tasks": [] for role in ("active", "standby", "warmup")},
        "process_id": "p",
    }

    def beat(epoch: int = 0, **given: Any) -> str:
        response = bench.ask(StreamsGroupHeartbeatRequest("s", "m", epoch, **given))
        assert not response.error_code
        return response.status[0].status_detail if response.status else ""

    missing, denied = "Internal topics are missing: s-c, s-d", "; Unauthorized to CREATE on topics "
    assert beat(**joining) == f"{missing}{denied}s-c, s-d."
    bench.give(on_topic(Op.CREATE, "s-c"))
    assert beat(**joining) == f"{missing}{denied}s-d."
    bench.give(on_cluster(Op.CREATE))
    assert beat(**joining) == missing
    assert beat(**joining) == ""
    asked = StreamsGroupDescribeRequest(["s", "other"], include_authorized_operations=True)
    unknown, shown = bench.ask(asked).groups
    assert (unknown.group_id, unknown.error_code) == ("other", ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert shown.authorized_operations == 1 << Op.READ | 1 << Op.DESCRIBE
    assert len(shown.topology.subtopologies) == 1
    bench.revoke_all()
    bench.give(on_group(Op.DESCRIBE, "s"), on_topic(Op.DESCRIBE, TOPIC))
    _, hidden = bench.ask(asked).groups
    assert (hidden.error_code, hidden.topology) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)


def test_a_refused_search_for_a_share_coordinator_names_no_broker(bench: AuthorizedBench) -> None:
    keys = ["g:AAAAAAAAAAAAAAAAAAAAAQ:0", "nonsense"]
    request = FindCoordinatorRequest(key_type=CoordinatorType.SHARE, coordinator_keys=keys)
    found = bench.ask(request, 6).coordinators
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."
    assert [(each.key, each.error_code, each.error_message) for each in found] == [(key, *denied) for key in keys]
    assert {(each.node_id, each.host, each.port) for each in found} == {(-1, "", -1)}


def test_offsets_of_share_groups_need_a_right_to_each_topic() -> None:
    bench = AuthorizedBench()
    bench.give(on_group(Op.READ, "s"), on_group(Op.DELETE, "s"), on_topic(Op.DESCRIBE))
    for epoch in (0, -1):  # joins, and leaves
        bench.ask(ShareGroupHeartbeatRequest("s", "m", epoch, subscribed_topic_names=[TOPIC]))
    Altered = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
    parts = [AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition(0, 1)]
    altered = bench.ask(AlterShareGroupOffsetsRequest("s", [Altered(TOPIC, parts)]))
    (topic,) = altered.responses
    (part,) = topic.partitions
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."
    # Like Kafka's, the answer shows the id.
    assert (bytes(topic.topic_id), part.error_code, part.error_message) == (bench.facts.topic_id, *denied)
    asked = [DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic(TOPIC)]
    (topic,) = bench.ask(DeleteShareGroupOffsetsRequest("s", asked)).responses
    assert (topic.topic_name, topic.error_code, topic.error_message) == (TOPIC, *denied)


# Options, and the log.


def test_without_an_authorizer_everything_is_allowed() -> None:
    before = AuthorizedBench()
    before.core.close()
    bench = BrokerBench(before.disk)
    assert bench.core.authorizer.acls is None
    assert f"/{TOPIC} NONE" in answers(bench.ask(MetadataRequest(None), 9), 9)


def test_resources_without_acls_can_be_open() -> None:
    bench = AuthorizedBench(allow_everyone_if_no_acl_found=True)
    case = next(case for case in CASES if case.name == "ListOffsets v11")
    assert bench.answers(case) == ANSWERS[case.name]["allowed"]
    denied = AccessControlEntry("User:bob", "*", Op.READ, AclPermissionType.ALLOW)
    bench.give(AclBinding(ResourcePattern(ResourceType.TOPIC, TOPIC), denied))
    assert bench.answers(case) == ANSWERS[case.name]["denied"]


def test_refusals_are_logged(bench: AuthorizedBench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafkawire.broker.authorizer")
    case = next(case for case in CASES if case.name == "ListOffsets v11")
    bench.answers(case)
    assert caplog.messages == [
        f"Principal = User:alice is Denied operation = DESCRIBE from host = host on resource = Topic:LITERAL:{TOPIC} "
        "for request = ListOffsets with resourceRefCount = 1 based on rule DefaultDeny"
    ]
    caplog.clear()
    bench.give(*case.rights)
    bench.answers(case)
    assert caplog.messages == []


def test_acls_survive_a_restart_and_apply_at_once() -> None:
    bench = AuthorizedBench()
    bench.give(on_topic(Op.DESCRIBE))
    bench.restart()
    case = next(case for case in CASES if case.name == "ListOffsets v11")
    assert bench.answers(case) == ANSWERS[case.name]["allowed"]
    bench.peer.principal = KafkaPrincipal("User", "bob")
    assert bench.answers(case) == ANSWERS[case.name]["denied"]


def test_a_damaged_file_prevents_the_start() -> None:
    bench = AuthorizedBench()
    bench.give(on_topic(Op.DESCRIBE))
    bench.core.close()
    content = bench.disk.open(ACLS).read(0, 1_000)
    replace_file(bench.disk, ACLS, content[:-3])
    with pytest.raises(ConfigurationError, match="acls is damaged"):
        bench.restart_again()
    replace_file(bench.disk, ACLS, content)
    bench.restart_again()  # the failed start has released the directory
    assert bench.core.authorizer.acls is not None
    assert len(bench.core.authorizer.acls.image) == 1


def test_the_names_of_both_authorizers() -> None:
    for name in (STANDARD, "kafka.security.authorizer.AclAuthorizer"):
        assert AuthorizedBench(authorizer_class_name=name).core.authorizer.acls is not None


# Clusters.


def test_every_api_of_a_cluster_names_the_authorizer() -> None:
    served = load(scope=Scope.CLUSTER).handlers
    unchecked = {key for key, each in served.items() if "authorizer" not in each._parts}
    assert unchecked == OPEN & served.keys()
