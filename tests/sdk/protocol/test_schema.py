"""Messages compare by content, show the fields that were set, can be copied and pickled, and are not hashable.

Method: use generated messages and two small classes, with and without the extension.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from kafkawire.sdk.errors import EncodeError
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kafkawire.sdk.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.fetch_snapshot import FetchSnapshotResponse
from kafkawire.sdk.protocol.messages.headers import ResponseHeader
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.schema import Field, Message, Schema
from kafkawire.sdk.protocol.tables.apis import APIS, REMOVED_APIS, ApiKey
from kafkawire.sdk.protocol.values import DEFAULT, hidden_slot
from kafkawire.sdk.protocol.versions import VersionRange as V

TOPIC = MetadataRequest.MetadataRequestTopic


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (ResponseHeader(1), ResponseHeader(1), True),
        (ResponseHeader(1), ResponseHeader(2), False),
        (ResponseHeader(1), ResponseHeader(1, ((5, b""),)), False),
        (MetadataRequest([TOPIC(name="a")]), MetadataRequest((TOPIC(name="a"),)), True),
        (MetadataRequest([TOPIC(name="a")]), MetadataRequest([TOPIC(name="b")]), False),
        (MetadataRequest([]), MetadataRequest(None), False),
        (
            ProduceRequest.PartitionProduceData(0, b"ab"),
            ProduceRequest.PartitionProduceData(0, memoryview(b"ab")),
            True,
        ),
        (FetchRequest(), FetchRequest(replica_state=FetchRequest.ReplicaState()), True),
        (FetchRequest(), FetchRequest(replica_state=FetchRequest.ReplicaState(5)), False),
        (ResponseHeader(1), 1, False),
    ],
)
def test_equality(left: Any, right: Any, same: bool) -> None:
    assert (left == right) is same
    assert (left != right) is not same


def test_messages_are_not_hashable() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(ResponseHeader())


def test_repr_shows_what_was_set() -> None:
    assert repr(ResponseHeader()) == "ResponseHeader()"
    assert repr(TOPIC(name="a")) == "MetadataRequest.MetadataRequestTopic(name='a')"
    assert repr(ResponseHeader(1, ((5, b"x"),))) == "ResponseHeader(correlation_id=1, unknown_tags=((5, b'x'),))"
    assert repr(ProduceRequest.PartitionProduceData(0, memoryview(b"abc"))).endswith("(records=<view of 3 bytes>)")


@pytest.mark.parametrize(
    "message",
    [
        SaslAuthenticateRequest(b"secret"),
        SaslAuthenticateResponse(auth_bytes=bytearray(b"secret")),
        CreateDelegationTokenResponse(hmac=b"secret"),
        RenewDelegationTokenRequest(b"secret"),
        AlterUserScramCredentialsRequest.ScramCredentialUpsertion("a", salted_password=b"secret"),
        AlterUserScramCredentialsRequest(
            upsertions=[AlterUserScramCredentialsRequest.ScramCredentialUpsertion("a", salted_password=b"secret")]
        ),
    ],
)
def test_repr_shows_only_the_size_of_secrets(message: Message) -> None:
    assert "secret" not in repr(message)
    assert "=<6 bytes>" in repr(message) or "ScramCredentialUpsertion" in repr(message)


def test_copies_and_pickles() -> None:
    message = codec(ProduceRequest, 9).decode(codec(ProduceRequest, 9).encode(produce()))[0]
    for other in (copy.copy(message), copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
        assert other == message
    assert copy.deepcopy(message).topic_data[0] is not message.topic_data[0]


def produce() -> ProduceRequest:
    partition = ProduceRequest.PartitionProduceData(1, b"records")
    return ProduceRequest(topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[partition])])


def test_patterns() -> None:
    match ResponseHeader(7):
        case ResponseHeader(correlation_id=7):
            pass
        case _:
            pytest.fail("no match")
    assert ResponseHeader.__match_args__ == ("correlation_id", "unknown_tags")


def test_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        ResponseHeader().correlation = 1  # type: ignore[attr-defined]  # the error is the point


def test_a_structure_appears_when_it_is_read() -> None:
    partition = FetchResponse.PartitionData()
    assert getattr(partition, hidden_slot("current_leader")) is DEFAULT
    leader = partition.current_leader
    assert leader == FetchResponse.LeaderIdAndEpoch()
    assert partition.current_leader is leader
    partition.current_leader = FetchResponse.LeaderIdAndEpoch(1, 2)
    assert partition.current_leader.leader_id == 1


def test_two_messages_do_not_share_a_structure() -> None:
    assert FetchResponse.PartitionData().current_leader is not FetchResponse.PartitionData().current_leader


def test_default_values() -> None:
    assert Field("a", "int32", V(0, 0), default=-1).default_value() == -1
    made = [Field("a", ResponseHeader, V(0, 0)).default_value() for _ in range(2)]
    assert made[0] == ResponseHeader()
    assert made[0] is not made[1]
    assert Field("a", ResponseHeader, V(0, 0), default=None).default_value() is None


def test_records_begin_as_null_even_where_they_must_be_set() -> None:
    partition = FetchSnapshotResponse.PartitionSnapshot()
    assert partition.unaligned_records is None
    response = FetchSnapshotResponse(topics=[FetchSnapshotResponse.TopicSnapshot("t", [partition])])
    with pytest.raises(EncodeError, match="unaligned_records: null is not allowed"):
        codec(FetchSnapshotResponse, 0).build(response)
    partition.unaligned_records = b""
    codec(FetchSnapshotResponse, 0).build(response)


def test_a_message_without_fields() -> None:
    class Empty(Message):
        __slots__ = ("unknown_tags",)

        def __init__(self, unknown_tags: Any = ()) -> None:
            self.unknown_tags = unknown_tags

    assert Empty() == Empty()
    assert repr(Empty()).endswith("Empty()")


@pytest.mark.parametrize(
    ("versions", "unstable", "stable"),
    [(V(0, 3), False, V(0, 3)), (V(0, 3), True, V(0, 2)), (V(2, 3), True, V(2, 2)), (V(3, 3), True, V(3, 3))],
)
def test_stable_versions(versions: V, unstable: bool, stable: V) -> None:
    api = APIS[ApiKey.FETCH]._replace(versions=versions, unstable=unstable)
    assert api.stable_versions == stable


def test_header_versions_follow_the_flexible_versions() -> None:
    for api in APIS.values():
        for version in range(api.versions[0], api.versions[1] + 1):
            flexible = api.flexible is not None and version >= api.flexible[0]
            assert api.is_flexible(version) is flexible
            assert api.request_header_version(version) == api.request_headers[flexible]
            assert api.response_header_version(version) == api.response_headers[flexible]


def test_known_versions() -> None:
    old, older = ("4.0", V(1, 2)), ("3.0", V(0, 0))
    schema = Schema("Lamp", "data", None, V(3, 5), None, (older, old))
    assert schema.known_versions == V(0, 5)
    assert [schema.removed_in(version) for version in range(7)] == ["3.0", "4.0", "4.0", None, None, None, None]
    assert schema._replace(versions=V(0, -1)).known_versions == V(0, 2)
    assert schema._replace(removed=()).known_versions == V(3, 5)
    assert not schema._replace(versions=V(0, -1), removed=()).known_versions


def test_apis_that_no_broker_serves() -> None:
    assert [api.name for api in REMOVED_APIS.values()] == [
        "LeaderAndIsr",
        "StopReplica",
        "UpdateMetadata",
        "ControlledShutdown",
    ]
    assert not REMOVED_APIS.keys() & APIS.keys()
    for api in REMOVED_APIS.values():
        assert not api.versions
        assert api.known_versions == message_class(f"{api.name}Request").SCHEMA.known_versions
    shutdown = REMOVED_APIS[ApiKey.CONTROLLED_SHUTDOWN]
    assert [shutdown.request_header_version(version) for version in range(4)] == [0, 1, 1, 2]
    assert [shutdown.response_header_version(version) for version in range(4)] == [0, 0, 0, 1]


def test_what_only_removed_versions_have_comes_after_the_other_arguments() -> None:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(1, 2, 3, "m", ())
    assert (partition.committed_metadata, partition.unknown_tags, partition.commit_timestamp) == ("m", (), -1)
    assert pickle.loads(pickle.dumps(partition)) == partition
    wire = [field.name for field in partition.FIELDS]
    assert wire.index("commit_timestamp") < wire.index("committed_metadata")


def test_a_constructor_may_have_variables() -> None:
    class Doubled(Message):
        __slots__ = ("inner", "unknown_tags")
        FIELDS = (Field("inner", ResponseHeader, V(0, 0)),)

        def __init__(self, inner: ResponseHeader = DEFAULT, unknown_tags: Any = ()) -> None:
            both = inner, unknown_tags
            self.inner, self.unknown_tags = both

    assert Doubled().inner == ResponseHeader()
    assert Doubled(ResponseHeader(5)).inner.correlation_id == 5


def test_message_classes_are_final() -> None:
    make: Any = type(Message)
    for namespace in ({}, {"__slots__": ()}, {"__slots__": ("mine",)}):
        with pytest.raises(TypeError, match="X cannot derive from ResponseHeader: message classes are final"):
            make("X", (ResponseHeader,), namespace)
    with pytest.raises(TypeError, match="X cannot derive from Message, int"):
        make("X", (Message, int), {})
    with pytest.raises(TypeError, match="X needs __slots__ and __init__"):
        make("X", (Message,), {"__slots__": ("unknown_tags",)})


def test_the_repr_of_what_cannot_be_shown() -> None:
    request = HeartbeatRequest(10**5000, [10**5000])  # type: ignore[arg-type]  # not a valid value of any field
    del request.member_id
    text = "HeartbeatRequest(group_id=a number of 16610 bits, generation_id=<list>, member_id=<not set>)"
    assert repr(request) == text
