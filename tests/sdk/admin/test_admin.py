"""Each method of an admin sends the right request and returns plain values; errors name their subject.

Method: call a scripted in-memory broker with hand-built responses.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kafkawire import sync
from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.admin.descriptions import ConfigEntry, GroupListing, NewPartitions, NewTopic
from kafkawire.sdk.client.core import ClientCore
from kafkawire.sdk.errors import (
    BrokerError,
    Closed,
    ConnectFailed,
    KafkaWireError,
    LocalProtocolError,
    RequestTimedOut,
)
from kafkawire.sdk.metrics.names import MetricName
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsResponse
from kafkawire.sdk.protocol.messages.describe_configs import DescribeConfigsResponse
from kafkawire.sdk.protocol.messages.list_groups import ListGroupsResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType, ConfigSource, OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.versions import VersionRange
from kafkawire.sdk.routing.metadata import Partition
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kafkawire.testing import Broker
from tests.sdk.admin.administering import REQUEST_TIMEOUT_MS, Pair, administering, created
from tests.sdk.scripted_broker import BROKER, StoringBroker, topic_id_of

T0 = TopicPartition("t", 0)


def with_nodes(*node_ids: int, topics: Sequence[MetadataResponse.MetadataResponseTopic] = ()) -> MetadataResponse:
    """Return the metadata of a cluster in which every node is this one broker."""
    return MetadataResponse(
        brokers=[MetadataResponse.MetadataResponseBroker(i, *BROKER) for i in node_ids], topics=topics
    )


def test_create_topics() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.script(ApiKey.CREATE_TOPICS, created(ErrorCode.NOT_CONTROLLER, 0), created(0, 0))
        topics = await admin.create_topics([NewTopic("a", 3, 1, {"cleanup.policy": "compact"}), "b"])
        assert {name: topic.topic_id for name, topic in topics.items()} == {
            "a": topic_id_of("a"),
            "b": topic_id_of("b"),
        }
        request = broker.asked(ApiKey.CREATE_TOPICS)[-1]
        assert isinstance(request, CreateTopicsRequest)
        first, second = request.topics
        assert (first.num_partitions, first.replication_factor) == (3, 1)
        assert [(each.name, each.value) for each in first.configs] == [("cleanup.policy", "compact")]
        assert (second.num_partitions, second.replication_factor) == (-1, -1)
        assert request.timeout_ms == REQUEST_TIMEOUT_MS

    administering(test)


def test_create_a_topic_that_is_there() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.script(ApiKey.CREATE_TOPICS, created(ErrorCode.TOPIC_ALREADY_EXISTS))
        with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS: create topic t: said the broker"):
            await admin.create_topics("t")

    administering(test)


def test_replicas_by_hand() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.script(ApiKey.CREATE_TOPICS, created(0))
        await admin.create_topics(NewTopic("a", assignments={0: (1, 2), 1: (2, 1)}))
        request = broker.asked(ApiKey.CREATE_TOPICS)[-1]
        assert isinstance(request, CreateTopicsRequest)
        (topic,) = request.topics
        assert [(each.partition_index, list(each.broker_ids)) for each in topic.assignments] == [
            (0, [1, 2]),
            (1, [2, 1]),
        ]

    administering(test)


def grown(*codes: int) -> Callable[[Request], CreatePartitionsResponse]:
    """Answer CreatePartitions, with an error code for each topic."""

    def respond(request: Request) -> CreatePartitionsResponse:
        kind = CreatePartitionsResponse.CreatePartitionsTopicResult
        wanted = zip(request.message.topics, codes, strict=True)
        return CreatePartitionsResponse(results=[kind(topic.name, code, "no") for topic, code in wanted])

    return respond


def test_create_partitions() -> None:
    throttled = ErrorCode.THROTTLING_QUOTA_EXCEEDED

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.script(ApiKey.CREATE_PARTITIONS, grown(0, ErrorCode.INVALID_PARTITIONS, throttled), grown(0))
        results = await admin.create_partitions({"a": 3, "b": 1, "c": NewPartitions(3, ((1, 2), (2, 1)))})
        assert results.values == {"a": None, "c": None}
        assert {name: str(error) for name, error in results.errors.items()} == {
            "b": "INVALID_PARTITIONS: create partitions of b: no"
        }
        with pytest.raises(BrokerError, match="INVALID_PARTITIONS"):
            results.all()
        first, second = broker.asked(ApiKey.CREATE_PARTITIONS)
        assert isinstance(first, CreatePartitionsRequest)
        assert isinstance(second, CreatePartitionsRequest)
        assert [(topic.name, topic.count, topic.assignments) for topic in first.topics[:2]] == [
            ("a", 3, None),
            ("b", 1, None),
        ]
        (again,) = second.topics  # only the throttled topic
        assert [list(each.broker_ids) for each in again.assignments or ()] == [[1, 2], [2, 1]]
        assert (first.timeout_ms, first.validate_only) == (REQUEST_TIMEOUT_MS, False)

    administering(test)


def test_create_partitions_is_tried() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.script(ApiKey.CREATE_PARTITIONS, grown(0))
        assert (await admin.create_partitions({"a": 3}, validate_only=True)).all() == {"a": None}
        (request,) = broker.asked(ApiKey.CREATE_PARTITIONS)
        assert isinstance(request, CreatePartitionsRequest)
        assert request.validate_only

    administering(test)


@pytest.mark.parametrize("highest", [5, 6])
def test_delete_topics(highest: int) -> None:
    def respond(request: Request) -> DeleteTopicsResponse:
        names = [topic.name for topic in request.message.topics] or request.message.topic_names
        codes = {"t": 0, "u": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        kind = DeleteTopicsResponse.DeletableTopicResult
        return DeleteTopicsResponse(responses=[kind(name, error_code=codes[name]) for name in names])

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DELETE_TOPICS] = respond
        await admin.delete_topics("t")
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION: delete topic u"):
            await admin.delete_topics(["t", "u"])

    async def run() -> None:
        broker = StoringBroker({"t": 2})
        broker.supported[ApiKey.DELETE_TOPICS] = VersionRange(1, highest)
        async with Admin(str(BROKER), network=broker.network, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
            await test(broker, admin)
            assert {each.message.timeout_ms for each in broker.requests} == {REQUEST_TIMEOUT_MS}

    asyncio.run(run())


@pytest.mark.parametrize("change", ["create", "delete"])
def test_the_metadata_follows_what_was_changed(change: str) -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DELETE_TOPICS] = lambda request: DeleteTopicsResponse(
            responses=[DeleteTopicsResponse.DeletableTopicResult("t")]
        )
        broker.responders[ApiKey.CREATE_TOPICS] = created(ErrorCode.NONE)
        usual, asked = broker.responders[ApiKey.METADATA], asyncio.Event()

        def answer(request: Request) -> Any:
            asked.set()
            return usual(request)

        broker.responders[ApiKey.METADATA] = answer
        await (admin.create_topics("u") if change == "create" else admin.delete_topics("t"))
        async with asyncio.timeout(5):
            await asked.wait()

    administering(test)


def test_topics() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        assert list(await admin.list_topics()) == ["t"]
        assert len((await admin.describe_topics("t"))["t"].partitions) == 2
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION: topic u"):
            await admin.describe_topics(["t", "u"])

    administering(test)


def test_internal_topics_are_listed_on_request() -> None:
    kind = MetadataResponse.MetadataResponseTopic
    topics = [kind(0, name, topic_id_of(name), is_internal=name[0] == "_") for name in ("_offsets", "t")]

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.METADATA] = lambda request: with_nodes(1, topics=topics)
        assert list(await admin.list_topics()) == ["t"]
        assert sorted(await admin.list_topics(include_internal=True)) == ["_offsets", "t"]

    administering(test)


def test_cluster() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        cluster = await admin.describe_cluster()
        assert (cluster.cluster_id, cluster.controller_id) == ("scripted", 1)
        assert {node: each.address for node, each in cluster.brokers.items()} == {1: BROKER}

    administering(test)


def test_the_racks_of_a_cluster() -> None:
    pair = Pair()
    pair.controller_id = 2

    async def test(admin: Admin) -> None:
        cluster = await admin.describe_cluster()
        assert cluster.controller_id == 2
        assert {node: each.rack for node, each in cluster.brokers.items()} == {1: "rack-1", 2: "rack-2"}

    pair.administering(test)


def test_the_replicas_of_a_partition() -> None:
    partition = MetadataResponse.MetadataResponsePartition(0, 0, 2, 5, [1, 2, 3], [2, 1], [3])
    topic = MetadataResponse.MetadataResponseTopic(0, "t", topic_id_of("t"), partitions=[partition])

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.METADATA] = lambda request: with_nodes(1, 2, topics=[topic])
        described = (await admin.describe_topics("t"))["t"].partitions
        assert described == {0: Partition(2, 5, (1, 2, 3), (2, 1), (3,))}

    administering(test)


def test_groups() -> None:
    def listed(request: Request) -> ListGroupsResponse:
        kind = ListGroupsResponse.ListedGroup
        return ListGroupsResponse(groups=[kind("h", "consumer", "Stable", "classic"), kind("g")])

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.LIST_GROUPS] = listed
        assert await admin.list_groups() == [
            GroupListing("g", "", "", ""),
            GroupListing("h", "consumer", "Stable", "classic"),
        ]

    administering(test)


def test_groups_of_a_broker_that_has_joined_since() -> None:
    def listed(*group_ids: str) -> Callable[[Request], ListGroupsResponse]:
        groups = [ListGroupsResponse.ListedGroup(group_id) for group_id in group_ids]
        return lambda request: ListGroupsResponse(groups=groups)

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.METADATA] = lambda request: with_nodes(1, 2)
        broker.script(ApiKey.LIST_GROUPS, listed("g"), listed("h"))
        assert [group.group_id for group in await admin.list_groups()] == ["g", "h"]

    administering(test)


def test_a_cluster_is_described_as_it_is_now() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        assert list((await admin.describe_cluster()).brokers) == [1]
        broker.responders[ApiKey.METADATA] = lambda request: with_nodes(1, 2)
        assert list((await admin.describe_cluster()).brokers) == [1, 2]

    administering(test)


def test_errors_of_the_offsets_of_groups() -> None:
    def offsets(request: Request) -> OffsetFetchResponse:
        partition = OffsetFetchResponse.OffsetFetchResponsePartitions(0, -1, error_code=code)
        topic = OffsetFetchResponse.OffsetFetchResponseTopics("t", topic_id_of("t"), [partition])
        return OffsetFetchResponse(groups=[OffsetFetchResponse.OffsetFetchResponseGroup("g", [topic])])

    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.OFFSET_FETCH] = offsets
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED: committed offset of group g in t-0"):
            await admin.list_group_offsets("g", [T0])
        group = OffsetFetchResponse.OffsetFetchResponseGroup("g", [], ErrorCode.GROUP_AUTHORIZATION_FAILED)
        broker.responders[ApiKey.OFFSET_FETCH] = lambda request: OffsetFetchResponse(groups=[group])
        with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED: committed offsets of group g"):
            await admin.list_group_offsets("g", [T0])

    administering(test)


def test_offsets() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.fill("t", b"a", b"b")
        broker.commits["g", "t", 0] = 1
        assert await admin.list_offsets({T0: OffsetTimestamp.LATEST}) == {T0: OffsetAndTimestamp(2, -1)}
        assert await admin.list_offsets({T0: datetime(1970, 1, 1, tzinfo=UTC)}) == {T0: OffsetAndTimestamp(0, -1)}
        assert await admin.list_group_offsets("g", [T0]) == {T0: OffsetAndMetadata(1)}
        (asked,) = (each.message for each in broker.requests if each.api.key == ApiKey.OFFSET_FETCH)
        assert not asked.require_stable

    administering(test)


def test_configs() -> None:
    def respond(request: Request) -> DescribeConfigsResponse:
        (resource,) = request.message.resources
        if resource.resource_name == "u":
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return DescribeConfigsResponse(results=[DescribeConfigsResponse.DescribeConfigsResult(code, None, 2, "u")])
        entry = DescribeConfigsResponse.DescribeConfigsResourceResult(
            "cleanup.policy", "delete", False, ConfigSource.DEFAULT_CONFIG
        )
        kind = DescribeConfigsResponse.DescribeConfigsResult
        result = kind(0, None, resource.resource_type, resource.resource_name, [entry])
        return DescribeConfigsResponse(results=[result])

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DESCRIBE_CONFIGS] = respond
        expected = {
            "cleanup.policy": ConfigEntry("cleanup.policy", "delete", ConfigSource.DEFAULT_CONFIG, False, False)
        }
        assert await admin.describe_configs(ConfigResourceType.TOPIC, "t", ["cleanup.policy"]) == expected
        assert await admin.describe_configs(ConfigResourceType.BROKER, "1") == expected
        with pytest.raises(BrokerError, match="configuration of topic u"):
            await admin.describe_configs(ConfigResourceType.TOPIC, "u")

    administering(test)


def test_started_twice_at_once() -> None:
    async def run() -> None:
        broker = StoringBroker()
        admin = Admin(str(BROKER), network=broker.network)
        first, second = await asyncio.gather(admin.start(), admin.start(), return_exceptions=True)
        assert first is None
        assert isinstance(second, LocalProtocolError)
        await admin.close()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


@pytest.mark.usefixtures("time_skips")
def test_what_only_one_broker_knows_is_asked_there() -> None:
    def respond(request: Request) -> DescribeConfigsResponse:
        (asked,) = request.message.resources
        kind = DescribeConfigsResponse.DescribeConfigsResult
        return DescribeConfigsResponse(results=[kind(0, None, asked.resource_type, asked.resource_name)])

    async def run() -> None:
        broker = StoringBroker({"t": 2})
        broker.responders[ApiKey.DESCRIBE_CONFIGS] = respond
        async with Admin(str(BROKER), network=broker.network) as admin:
            for kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
                with pytest.raises(KafkaWireError, match="cannot connect to node 9: the cluster does not include it"):
                    await admin.describe_configs(kind, "9")
            assert await admin.describe_configs(ConfigResourceType.BROKER, "") == {}  # the defaults for all brokers
            assert await admin.describe_configs(ConfigResourceType.BROKER_LOGGER, "1") == {}

    asyncio.run(run())


def test_start_and_close() -> None:
    async def run() -> None:
        broker = StoringBroker()
        admin = Admin(str(BROKER), network=broker.network)
        with pytest.raises(Closed, match="the admin is not started"):
            await admin.list_topics()
        with pytest.raises(Closed, match="the admin is not started"):
            admin.metrics()
        await admin.close()
        await admin.start()
        assert admin.metrics()[MetricName("admin-client-metrics", "connection-creation-total")] == 1
        with pytest.raises(LocalProtocolError, match="already started"):
            await admin.start()
        await admin.close()
        with pytest.raises(Closed):
            await admin.describe_cluster()
        with pytest.raises(Closed, match="the admin was closed; create a new one"):
            await admin.start()

    asyncio.run(run())


@pytest.mark.usefixtures("time_skips")
def test_a_start_that_fails_leaves_nothing_behind() -> None:
    async def run() -> None:
        broker = StoringBroker()
        broker.stop()
        admin = Admin(str(BROKER), network=broker.network, retry_backoff_ms=1, api_timeout_ms=50)
        with pytest.raises(ConnectFailed):
            await admin.start()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        broker.start()
        await admin.start()
        assert await admin.list_topics() == {}
        await admin.close()

    asyncio.run(run())


def test_an_admin_that_could_not_be_started_may_be_started_while_the_rest_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[object] = []

    async def fails(core: ClientCore) -> None:
        raise Closed("no")

    async def run() -> None:
        admin = Admin(str(BROKER), network=StoringBroker({"t": 1}).network)

        async def finishes(core: ClientCore, error: KafkaWireError) -> None:
            left.append(admin._started)

        monkeypatch.setattr(ClientCore, "start", fails)
        monkeypatch.setattr(ClientCore, "finish", finishes)
        with pytest.raises(Closed, match="no"):
            await admin.start()
        assert left == [None]

    asyncio.run(run())


def test_a_limit_for_one_call() -> None:
    async def run() -> None:
        broker = StoringBroker({"t": 1})
        admin = Admin(str(BROKER), network=broker.network, retry_backoff_ms=1, request_timeout_ms=6_000)
        limited = admin.within(30)
        with pytest.raises(Closed, match="the admin is not started"):
            await limited.list_topics()
        await admin.start()
        broker.script(ApiKey.CREATE_TOPICS, created(0))
        await admin.within(5_000).create_topics("a")
        (request,) = broker.asked(ApiKey.CREATE_TOPICS)
        assert isinstance(request, CreateTopicsRequest)
        assert request.timeout_ms == 5_000
        broker.responders[ApiKey.LIST_OFFSETS] = lambda request: None
        with pytest.raises(RequestTimedOut):
            await limited.list_offsets({T0: OffsetTimestamp.LATEST})
        assert repr(limited) == repr(admin)
        assert limited.client_id == admin.client_id
        assert limited.metrics().keys() == admin.metrics().keys()
        for wrong in (limited.start, limited.close):
            with pytest.raises(LocalProtocolError, match="the admin itself, not the result of within"):
                await wrong()
        del limited
        admin.metrics()  # it is still started
        await admin.close()

    asyncio.run(run())


def test_a_limit_for_one_blocking_call() -> None:
    with Broker(ephemeral=True) as broker, sync.Admin(broker.bootstrap) as admin:
        assert admin.within(5_000).list_topics() == {}
        assert admin.within(5_000).client_id == admin.client_id
        assert list(admin.create_topics("t")) == ["t"]


def test_the_guide_names_every_operation_and_option() -> None:
    page = (Path(__file__).parents[3] / "docs/guide/admin.md").read_text("utf-8")
    rows = [line.split("|") for line in page.partition("| Java |")[2].splitlines() if line.startswith("|")][1:]
    named: set[str] = set()
    for _, _, ours, failure, options, _ in rows:
        methods = re.findall(r"`(\w+)`", ours)
        named.update(methods)
        returned = [str(inspect.signature(getattr(Admin, method)).return_annotation) for method in methods]
        kinds = dict.fromkeys("`ItemResults`" if kind.startswith("ItemResults") else "raises" for kind in returned)
        assert failure.strip() == ", ".join(kinds), ours
        known = {name for method in methods for name in inspect.signature(getattr(Admin, method)).parameters}
        assert set(re.findall(r"`(\w+)`", options)) <= known, ours
    public = {name for name in dir(Admin) if not name.startswith("_")}
    assert named == public - {"client_id", "close", "start", "within"}, "a row of the table is missing or superfluous"
