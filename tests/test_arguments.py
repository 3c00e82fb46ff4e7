"""An invalid argument is refused by the call that it is passed to, and the client keeps working.

Method: a table lists every public method that takes partitions, offsets, times, limits, topics, groups or
configurations, with invalid arguments for each. Call each method with them, and check afterwards that the same clients
still work. The blocking clients use the same table.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock, create_autospec

import pytest

import kafkawire
from kafkawire import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AlterConfigOperation,
    ClientQuotaAlteration,
    ClientQuotaEntity,
    ClientQuotaFilter,
    ClientQuotaFilterComponent,
    ConfigChange,
    ConfigResourceType,
    ConsumerInterceptor,
    ElectionType,
    NewPartitions,
    NewTopic,
    OffsetAndMetadata,
    PatternType,
    ProducerInterceptor,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    ScramMechanism,
    TopicPartition,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
    sync,
)
from kafkawire.sdk.errors import ConfigurationError, LocalProtocolError
from kafkawire.sdk.groups.protocol import GroupMetadata
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from tests.sdk.scripted_broker import BROKER, StoringBroker

T0 = TopicPartition("t", 0)
TOO_LARGE = 1 << 63

#: A number so large that Python refuses to print its digits.
UNWRITABLE = 10**5_000

#: A call that takes this long counts as not refused.
PATIENCE_SECONDS = 0.5

NUMBERS = (None, "1", b"1", 1.5, True, -1, TOO_LARGE, UNWRITABLE, -UNWRITABLE, (1,))
OF_SEVERAL = (
    *(None, 5, "t", b"t", ("t",), ("t", 0, 0), ("t", "0"), ("t", -1), ("t", True), ("t", 1 << 31), (5, 0)),
    *(UNWRITABLE, ("t", UNWRITABLE), (UNWRITABLE, 0), (UNWRITABLE,)),
)
PARTITIONS = (*OF_SEVERAL, [], [T0])
TIMES = (None, "now", b"1", 1.5, True, -7, TOO_LARGE, UNWRITABLE, -UNWRITABLE, (1,))
LIMITS = ("1", b"1", 1.5, True, -1, UNWRITABLE, (1,))
TEXTS = (None, 5, b"g", ("g",), UNWRITABLE)
SEVERAL = (*OF_SEVERAL, [None, T0], (T0, 5), {"t": 0}, *([each] for each in OF_SEVERAL if each != "t"), ["t", "t"])

Call = Callable[[Any, Any], Any]

#: Untyped, so that type checkers allow invalid arguments.
offset_and_metadata: Any = OffsetAndMetadata
group_metadata: Any = GroupMetadata
new_topic: Any = NewTopic
config_change: Any = ConfigChange
new_partitions: Any = NewPartitions
alteration: Any = ClientQuotaAlteration
component: Any = ClientQuotaFilterComponent
deletion: Any = UserScramCredentialDeletion
quota_entity: Any = ClientQuotaEntity
quota_filter: Any = ClientQuotaFilter
upsertion: Any = UserScramCredentialUpsertion

ALICE = ClientQuotaEntity("alice")
SHA_256 = ScramMechanism.SCRAM_SHA_256
acl: Any = AclBinding
acl_filter: Any = AclBindingFilter
pattern: Any = ResourcePattern(ResourceType.TOPIC, "t")
entry: Any = AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW)
pattern_filter: Any = ResourcePatternFilter()
entry_filter: Any = AccessControlEntryFilter()


def keyed(*values: Any) -> list[Any]:
    """Return invalid mappings: not a mapping, wrong partitions, or wrong values."""
    hashable = [each for each in PARTITIONS if not isinstance(each, list)]
    return [5, "t", T0, [T0], [(T0, 0)], *({each: 0} for each in hashable), *({T0: each} for each in values)]


COMMITS = keyed(
    *NUMBERS,
    *(offset_and_metadata(each) for each in NUMBERS),
    *(offset_and_metadata(0, each) for each in TEXTS),
    *(offset_and_metadata(0, "", each) for each in (None, "1", -2, 1 << 31)),
)
TOPIC = (None, 5, b"t", "", "a b", ["t"], UNWRITABLE)
TOPICS = (None, 5, b"t", "", "a b", ["t", 5], ["t", ["t"]], [b"t"], [["t"]], UNWRITABLE, [UNWRITABLE])
NEW_TOPICS = (
    *(each for each in TOPICS if each != "t"),
    *(new_topic(each) for each in TEXTS),
    *(new_topic("n", each) for each in (None, "1", True, 1.5, -2, 1 << 31, UNWRITABLE)),
    *(new_topic("n", 1, each) for each in (None, "1", True, 1.5, -2, 1 << 15)),
    *(new_topic("n", configs=each) for each in (None, 5, ["a"], {5: "1"}, {"a": 5})),
    *(
        new_topic("n", assignments=each)
        for each in (None, 5, {"0": (1,)}, {-1: (1,)}, {0: 1}, {0: ("1",)}, {0: (-1,)}, {UNWRITABLE: ()})
    ),
)
#: Invalid lists of node ids.
NODE_IDS = (5, "12", b"12", (None,), ("1",), (True,), (-1,), (1 << 31,), (UNWRITABLE,))
COUNTS = (None, "1", True, 1.5, 0, 1 << 31, UNWRITABLE)
NEW_PARTITIONS = (
    *(None, 5, "t", ["t"]),
    *({each: 1} for each in (None, 5, b"t", "", "a b", UNWRITABLE)),
    *({"t": each} for each in COUNTS),
    *({"t": new_partitions(each)} for each in COUNTS),
    *({"t": new_partitions(2, each)} for each in (None, 5, "12", (1,))),
    *({"t": new_partitions(2, (each,))} for each in NODE_IDS),
)
RESOURCES = (
    *((each, "t") for each in (None, "topic", 0, 3, 2.0, True, (2,), UNWRITABLE)),
    *((ConfigResourceType.TOPIC, each) for each in TEXTS),
    *((ConfigResourceType.BROKER, each) for each in (None, 1, "x", "-1", " 1", "1.0", "²", str(1 << 31), "1" * 5_000)),
    (ConfigResourceType.BROKER_LOGGER, ""),
)
TOPIC_IDS = (None, 5, b"0" * 16, "0" * 22, [None], [5], [b"0"], ["0"], ["t"], [bytearray(16)])
LEVELS = (None, 0, 1, "committed", "READ_COMMITTED", b"read_committed", ["read_committed"])
WORDS = (None, 5, "Stable", b"Stable", [5], [None], [b"Stable"], ["a", ["b"]])
GROUP_IDS = (None, 5, b"g", ["g", 5], ["g", ["g"]], [b"g"])
NO_MEMBERS = (None, 2, "READ", True, UNWRITABLE, ElectionType.PREFERRED)
ACLS = (
    *(None, 5, "t", pattern, [acl(pattern, entry), None], acl_filter()),
    *(acl(each, entry) for each in (None, "t", entry, pattern_filter, tuple(pattern))),
    *(acl(pattern, each) for each in (None, "User:a", pattern, entry_filter, tuple(entry))),
    *(acl(pattern._replace(name=each), entry) for each in TEXTS),
    *(acl(pattern._replace(resource_type=each), entry) for each in (*NO_MEMBERS, ResourceType.ANY)),
    *(acl(pattern._replace(pattern_type=each), entry) for each in (*NO_MEMBERS, PatternType.MATCH, PatternType.ANY)),
    *(acl(pattern, entry._replace(principal=each)) for each in TEXTS),
    *(acl(pattern, entry._replace(host=each)) for each in TEXTS),
    *(acl(pattern, entry._replace(operation=each)) for each in (*NO_MEMBERS, AclOperation.ANY)),
    *(acl(pattern, entry._replace(permission_type=each)) for each in (*NO_MEMBERS, AclPermissionType.ANY)),
)
ACL_FILTERS = (
    *(5, "t", pattern_filter, acl(pattern, entry)),
    *(acl_filter(each) for each in (None, "t", pattern, entry_filter)),
    *(acl_filter(pattern_filter, each) for each in (None, "User:a", entry, pattern_filter)),
    *(acl_filter(pattern_filter._replace(name=each)) for each in TEXTS[1:]),
    *(acl_filter(pattern_filter._replace(resource_type=each)) for each in (*NO_MEMBERS, ResourceType.UNKNOWN)),
    *(acl_filter(pattern_filter._replace(pattern_type=each)) for each in (*NO_MEMBERS, PatternType.UNKNOWN)),
    *(acl_filter(pattern_filter, entry_filter._replace(principal=each)) for each in TEXTS[1:]),
    *(acl_filter(pattern_filter, entry_filter._replace(host=each)) for each in TEXTS[1:]),
    *(acl_filter(pattern_filter, entry_filter._replace(operation=each)) for each in NO_MEMBERS),
    *(acl_filter(pattern_filter, entry_filter._replace(permission_type=each)) for each in NO_MEMBERS),
)
GROUPS = (
    None,
    5,
    "g",
    ("g", 1, "", None),
    *(group_metadata(each) for each in TEXTS),
    group_metadata("g", "1"),
    group_metadata("g", 1, None),
    group_metadata("g", 1, "", 5),
)

CONSUMER: dict[str, tuple[Call, Any]] = {
    "assign": (lambda consumer, given: consumer.assign(given), [*SEVERAL, *keyed(*NUMBERS)[4:]]),
    "assign nothing": (lambda consumer, given: consumer.assign(*given), [(), ({T0: 0}, T0), ([T0], T0)]),
    "pause": (lambda consumer, given: consumer.pause(given), SEVERAL),
    "resume": (lambda consumer, given: consumer.resume(given), SEVERAL),
    "finish": (lambda consumer, given: consumer.finish(given), (None, 5, "t", T0, [None], ["t"])),
    "skip": (lambda consumer, given: consumer.skip(given), (None, 5, "t", T0)),
    "seek": (lambda consumer, given: consumer.seek(given, 0), PARTITIONS),
    "seek to": (lambda consumer, given: consumer.seek(T0, given), NUMBERS),
    "seek_to_beginning": (lambda consumer, given: consumer.seek_to_beginning(given), SEVERAL),
    "seek_to_end": (lambda consumer, given: consumer.seek_to_end(given), SEVERAL),
    "seek_to_time": (lambda consumer, given: consumer.seek_to_time(given, T0), TIMES),
    "seek_to_time of": (lambda consumer, given: consumer.seek_to_time(0, given), SEVERAL),
    "lag": (lambda consumer, given: consumer.lag(given), PARTITIONS),
    "position": (lambda consumer, given: consumer.position(given), PARTITIONS),
    "committed": (lambda consumer, given: consumer.committed(given), SEVERAL),
    "commit": (lambda consumer, given: consumer.commit(given), COMMITS),
    "commit in": (lambda consumer, given: consumer.commit({T0: 0}, given), LIMITS),
    "beginning_offsets": (lambda consumer, given: consumer.beginning_offsets(given), SEVERAL),
    "end_offsets": (lambda consumer, given: consumer.end_offsets(given), SEVERAL),
    "offsets_for_times": (lambda consumer, given: consumer.offsets_for_times(given), [None, *keyed(*TIMES, -1)]),
    "partitions_for": (lambda consumer, given: consumer.partitions_for(given), TOPIC),
    "subscribe": (lambda consumer, given: consumer.subscribe(given), TOPICS),
    "subscribe pattern": (lambda consumer, given: consumer.subscribe(pattern=given), TEXTS[1:]),
    "getmany": (lambda consumer, given: consumer.getmany(given), LIMITS),
    "getmany of": (lambda consumer, given: consumer.getmany(0, given), (*LIMITS, 0)),
    "getbatches": (lambda consumer, given: consumer.getbatches(given), LIMITS),
    "getbatches of": (lambda consumer, given: consumer.getbatches(0, given), (*LIMITS, 0)),
    "records": (lambda consumer, given: first_of(consumer.records(until=given)), keyed(*NUMBERS)[1:] + list(TIMES[1:])),
    "close": (lambda consumer, given: consumer.close(given), (None, *LIMITS)),
}
PRODUCER: dict[str, tuple[Call, Any]] = {
    "send_offsets": (lambda producer, given: producer.send_offsets(given, GroupMetadata("g")), [None, *COMMITS]),
    "send_offsets of": (lambda producer, given: producer.send_offsets({T0: 0}, given), GROUPS),
    "send_offsets in": (lambda producer, given: producer.send_offsets({T0: 0}, GroupMetadata("g"), given), LIMITS),
    "commit_transaction": (lambda producer, given: producer.commit_transaction(given), LIMITS),
    "abort_transaction": (lambda producer, given: producer.abort_transaction(given), LIMITS),
    "close": (lambda producer, given: producer.close(timeout_ms=given), LIMITS),
    "flush": (lambda producer, given: producer.flush(given), LIMITS),
}
ADMIN: dict[str, tuple[Call, Any]] = {
    "create_topics": (lambda admin, given: admin.create_topics(given), NEW_TOPICS),
    "create_partitions": (lambda admin, given: admin.create_partitions(given), NEW_PARTITIONS),
    "alter_partition_reassignments": (
        lambda admin, given: admin.alter_partition_reassignments(given),
        [None, *(each for each in keyed(*NODE_IDS))],
    ),
    "list_partition_reassignments": (lambda admin, given: admin.list_partition_reassignments(given), SEVERAL),
    "elect_leaders": (lambda admin, given: admin.elect_leaders(given), (None, "preferred", 0, 2, True, UNWRITABLE)),
    "elect_leaders of": (lambda admin, given: admin.elect_leaders(ElectionType.PREFERRED, given), SEVERAL),
    "describe_features": (
        lambda admin, given: admin.describe_features(given),
        (*(each for each in NODE_IDS if each != 5), -1, True, UNWRITABLE),
    ),
    "describe_log_dirs": (
        lambda admin, given: admin.describe_log_dirs(given),
        (*(each for each in NODE_IDS if each != 5), None, -1, True, UNWRITABLE),
    ),
    "alter_replica_log_dirs": (
        lambda admin, given: admin.alter_replica_log_dirs(given),
        (
            *(None, 5, "t", [("t", 0, 1)]),
            *({each: "/d"} for each in (None, "t", T0, (5, 0, 1), ("t", "0", 1), ("t", 0, "1"), ("t", 0, -1))),
            *({("t", 0, 1): each} for each in TEXTS),
        ),
    ),
    "delete_topics": (lambda admin, given: admin.delete_topics(given), TOPICS),
    "describe_topics": (lambda admin, given: admin.describe_topics(given), TOPICS),
    "describe_groups": (
        lambda admin, given: admin.describe_groups(given),
        (None, 5, b"g", ["g", 5], ["g", ["g"]], [b"g"]),
    ),
    "list_offsets": (lambda admin, given: admin.list_offsets(given), [None, *keyed(*TIMES)]),
    "list_group_offsets": (lambda admin, given: admin.list_group_offsets(given), TEXTS),
    "list_group_offsets of": (lambda admin, given: admin.list_group_offsets("g", given), SEVERAL),
    "describe_configs": (lambda admin, given: admin.describe_configs(*given), RESOURCES),
    "incremental_alter_configs": (
        lambda admin, given: admin.incremental_alter_configs(*given, {"retention.ms": "1"}),
        RESOURCES,
    ),
    "incremental_alter_configs changes": (
        lambda admin, given: admin.incremental_alter_configs(ConfigResourceType.TOPIC, "t", given),
        (
            *(None, 5, "a", b"a", ["a"], [("a", "1")], {5: "1"}, {"a": 5}, [config_change(5, "1")]),
            *([config_change("a", "1", each)] for each in (None, 0, "SET", 9)),
            *([config_change("a", None, each)] for each in AlterConfigOperation if each.name != "DELETE"),
        ),
    ),
    "alter_configs": (lambda admin, given: admin.alter_configs(*given, {"retention.ms": "1"}), RESOURCES),
    "alter_configs of": (
        lambda admin, given: admin.alter_configs(ConfigResourceType.TOPIC, "t", given),
        (None, 5, "a", ["a"], {5: "1"}, {"a": 5}, {"a": None}),
    ),
    "create_acls": (lambda admin, given: admin.create_acls(given), ACLS),
    "describe_acls": (lambda admin, given: admin.describe_acls(given), (*ACL_FILTERS, [acl_filter()])),
    "delete_acls": (lambda admin, given: admin.delete_acls(given), (None, *ACL_FILTERS, [acl_filter(), 5])),
    "describe_configs keys": (
        lambda admin, given: admin.describe_configs(ConfigResourceType.TOPIC, "t", given),
        (None, 5, b"a", ["a", 5], [["a"]]),
    ),
    "describe_configs_of": (lambda admin, given: admin.describe_configs_of(given), (None, 5, "t", ("t",), *RESOURCES)),
    "incremental_alter_configs_of": (
        lambda admin, given: admin.incremental_alter_configs_of(given),
        (None, 5, ["t"], *({each: {}} for each in RESOURCES), {(ConfigResourceType.TOPIC, "t"): 5}),
    ),
    "list_config_resources": (
        lambda admin, given: admin.list_config_resources(given),
        (None, "topic", b"t", 0, 3, 2.0, True, (None,), ["topic"], UNWRITABLE),
    ),
    "within": (lambda admin, given: admin.within(given), (None, *LIMITS)),
    "create_topics validated": (lambda admin, given: admin.create_topics(given, validate_only=True), NEW_TOPICS),
    "delete_topics ids": (lambda admin, given: admin.delete_topics(topic_ids=given), TOPIC_IDS),
    "describe_topics ids": (lambda admin, given: admin.describe_topics(topic_ids=given), TOPIC_IDS),
    "describe_replica_log_dirs": (
        lambda admin, given: admin.describe_replica_log_dirs(given),
        (None, 5, "t", T0, (5, 0, 1), ("t", "0", 1), ("t", 0, "1"), ("t", 0, -1), [None], [T0], UNWRITABLE),
    ),
    "delete_records": (
        lambda admin, given: admin.delete_records(given),
        [None, *keyed(*(each for each in NUMBERS if each is not None))],
    ),
    "list_offsets isolation": (lambda admin, given: admin.list_offsets({}, isolation_level=given), LEVELS),
    "lag": (lambda admin, given: admin.lag(given), TEXTS),
    "lag isolation": (lambda admin, given: admin.lag("g", isolation_level=given), LEVELS),
    "list_groups states": (lambda admin, given: admin.list_groups(states=given), WORDS),
    "list_groups types": (lambda admin, given: admin.list_groups(types=given), WORDS),
    "list_groups protocol_types": (lambda admin, given: admin.list_groups(protocol_types=given), WORDS),
    "delete_groups": (lambda admin, given: admin.delete_groups(given), GROUP_IDS),
    "remove_group_members": (lambda admin, given: admin.remove_group_members(given, "i"), TEXTS),
    "remove_group_members static": (lambda admin, given: admin.remove_group_members("g", given), GROUP_IDS),
    "remove_group_members dynamic": (lambda admin, given: admin.remove_group_members("g", member_ids=given), WORDS),
    "remove_group_members reason": (lambda admin, given: admin.remove_group_members("g", "i", reason=given), TEXTS),
    "list_group_offsets_of": (
        lambda admin, given: admin.list_group_offsets_of(given),
        (*WORDS, *({each: None} for each in (None, 5, b"g")), *({"g": each} for each in SEVERAL if each is not None)),
    ),
    "alter_group_offsets": (lambda admin, given: admin.alter_group_offsets(given, {T0: 1}), TEXTS),
    "alter_group_offsets of": (lambda admin, given: admin.alter_group_offsets("g", given), [None, *COMMITS]),
    "delete_group_offsets": (lambda admin, given: admin.delete_group_offsets(given, T0), TEXTS),
    "delete_group_offsets of": (lambda admin, given: admin.delete_group_offsets("g", given), SEVERAL),
    "list_transactions states": (lambda admin, given: admin.list_transactions(states=given), WORDS),
    "list_transactions producers": (
        lambda admin, given: admin.list_transactions(producer_ids=given),
        (None, 5, "12", b"12", *([each] for each in NUMBERS)),
    ),
    "list_transactions longer": (lambda admin, given: admin.list_transactions(longer_than_ms=given), NUMBERS[1:]),
    "list_transactions pattern": (lambda admin, given: admin.list_transactions(pattern=given), TEXTS[1:]),
    "describe_transactions": (lambda admin, given: admin.describe_transactions(given), GROUP_IDS),
    "fence_producers": (lambda admin, given: admin.fence_producers(given), GROUP_IDS),
    "force_terminate_transaction": (lambda admin, given: admin.force_terminate_transaction(given), TEXTS),
    "describe_producers": (lambda admin, given: admin.describe_producers(given), SEVERAL),
    "describe_producers node": (lambda admin, given: admin.describe_producers(T0, node_id=given), NUMBERS[1:]),
    "find_hanging_transactions": (lambda admin, given: admin.find_hanging_transactions(given), TOPICS),
    "find_hanging_transactions node": (
        lambda admin, given: admin.find_hanging_transactions(node_id=given),
        NUMBERS[1:],
    ),
    "find_hanging_transactions silent": (
        lambda admin, given: admin.find_hanging_transactions(silent_for_ms=given),
        NUMBERS,
    ),
    "abort_transaction": (
        lambda admin, given: admin.abort_transaction(given, producer_id=1, producer_epoch=0),
        PARTITIONS,
    ),
    "abort_transaction of": (
        lambda admin, given: admin.abort_transaction(T0, producer_id=given, producer_epoch=0),
        NUMBERS,
    ),
    "abort_transaction epoch": (
        lambda admin, given: admin.abort_transaction(T0, producer_id=1, producer_epoch=given),
        (*NUMBERS, 1 << 15),
    ),
    "abort_transaction coordinator": (
        lambda admin, given: admin.abort_transaction(T0, producer_id=1, producer_epoch=0, coordinator_epoch=given),
        (*NUMBERS[1:], 1 << 31),
    ),
}
ADMIN |= {
    "describe_client_quotas": (
        lambda admin, given: admin.describe_client_quotas(given),
        (
            *(5, "user", [], [component("user")], quota_filter(None), quota_filter(5), quota_filter("user")),
            *(quota_filter([each]) for each in (None, 5, "user", ("user", None), component("host"), component(5))),
            *(quota_filter([component("user", each)]) for each in (5, b"a", ["a"])),
            quota_filter([component("user"), component("user", "a")]),
        ),
    ),
    "alter_client_quotas": (
        lambda admin, given: admin.alter_client_quotas(given),
        (
            *(None, 5, "a", [5], {ALICE: {}}, (ALICE, {}), [alteration(ALICE, {}), alteration(ALICE, {})]),
            *(alteration(each, {}) for each in (None, 5, "alice", ("alice",), quota_entity(), quota_entity(5))),
            *(alteration(ALICE, each) for each in (None, 5, "a", ["a"], {5: 1.0}, {"a": "1"}, {"a": True})),
            alteration(ALICE, {"a": UNWRITABLE}),
        ),
    ),
    "describe_user_scram_credentials": (
        lambda admin, given: admin.describe_user_scram_credentials(given),
        (None, 5, b"a", ["a", 5], [["a"]]),
    ),
    "alter_user_scram_credentials": (
        lambda admin, given: admin.alter_user_scram_credentials(given),
        (
            *(None, 5, "alice", ["alice"], ("alice", SHA_256)),
            *(deletion(each, SHA_256) for each in (*TEXTS, "")),
            *(deletion("alice", each) for each in (None, 1, "SCRAM-SHA-256", UNWRITABLE)),
            *(upsertion(each, SHA_256, "secret") for each in (*TEXTS, "")),
            *(upsertion("alice", each, "secret") for each in (None, 1, "SCRAM-SHA-256")),
            *(upsertion("alice", SHA_256, each) for each in (None, 5, b"secret", "")),
            *(upsertion("alice", SHA_256, "secret", each) for each in (None, "1", True, 0, 1 << 31, UNWRITABLE)),
            *(upsertion("alice", SHA_256, "secret", 4_096, each) for each in ("salt", b"", 5)),
        ),
    ),
}
PRINCIPALS = (5, b"User:a", "alice", ":a", "User:", ["User:a", 5])
HMACS = (None, 5, ["a"], 1.5, True)
PERIODS = [each for each in LIMITS if each != -1]  # Kafka's number for the default

ADMIN |= {
    "create_delegation_token": (
        lambda admin, given: admin.create_delegation_token(given),
        [each for each in PRINCIPALS if not isinstance(each, list)],
    ),
    "create_delegation_token renewers": (
        lambda admin, given: admin.create_delegation_token(renewers=given),
        [None, 5, "User:a", ["alice"], ["User:a", 5]],
    ),
    "create_delegation_token lifetime": (
        lambda admin, given: admin.create_delegation_token(max_lifetime_ms=given),
        PERIODS,
    ),
    "renew_delegation_token": (lambda admin, given: admin.renew_delegation_token(given), HMACS),
    "renew_delegation_token period": (lambda admin, given: admin.renew_delegation_token(b"a", given), PERIODS),
    "expire_delegation_token": (lambda admin, given: admin.expire_delegation_token(given), HMACS),
    "expire_delegation_token period": (
        lambda admin, given: admin.expire_delegation_token(b"a", given),
        PERIODS,
    ),
    "describe_delegation_tokens": (
        lambda admin, given: admin.describe_delegation_tokens(given),
        [5, "User:a", ["alice"], ["User:a", 5]],
    ),
    "update_features": (
        lambda admin, given: admin.update_features(given),
        [None, 5, "f", ["f"], {5: 1}, {"f": "1"}, {"f": True}, {"f": -1}, {"f": 1 << 15}],
    ),
    "unregister_broker": (
        lambda admin, given: admin.unregister_broker(given),
        [None, "1", b"1", True, 1.5, -1, 1 << 31],
    ),
    "client_instance_id": (lambda admin, given: admin.client_instance_id(given), NUMBERS),
    "describe_share_groups": (lambda admin, given: admin.describe_share_groups(given), GROUP_IDS),
    "describe_streams_groups": (lambda admin, given: admin.describe_streams_groups(given), GROUP_IDS),
    "delete_share_groups": (lambda admin, given: admin.delete_share_groups(given), GROUP_IDS),
    "list_share_group_offsets": (lambda admin, given: admin.list_share_group_offsets(given), TEXTS),
    "list_share_group_offsets of": (lambda admin, given: admin.list_share_group_offsets("g", given), SEVERAL),
    "alter_share_group_offsets": (lambda admin, given: admin.alter_share_group_offsets(given, {T0: 1}), TEXTS),
    "alter_share_group_offsets of": (
        lambda admin, given: admin.alter_share_group_offsets("g", given),
        [None, *keyed(*NUMBERS)],
    ),
    "delete_share_group_offsets": (lambda admin, given: admin.delete_share_group_offsets(given, "t"), TEXTS),
    "delete_share_group_offsets of": (
        lambda admin, given: admin.delete_share_group_offsets("g", given),
        TOPICS,
    ),
}
CONSUMER["client_instance_id"] = (lambda consumer, given: consumer.client_instance_id(given), NUMBERS)
PRODUCER["client_instance_id"] = (lambda producer, given: producer.client_instance_id(given), NUMBERS)

TABLES = {"Consumer": CONSUMER, "Producer": PRODUCER, "Admin": ADMIN}

#: Methods without such arguments, or with a separate table: tests/sdk/producer/test_producer.py has one for records.
OTHERS = {
    "Consumer": {
        "assignment",
        "batches",
        "client_id",
        "group_metadata",
        "health",
        "metrics",
        "paused",
        "start",
        "subscription",
    },
    "Producer": {
        *{"begin_transaction", "client_id", "drain", "metrics", "send", "send_arrow", "send_many", "start"},
        "transaction",
    },
    "Admin": {"client_id", "close", "describe_cluster", "describe_metadata_quorum", "list_topics", "metrics", "start"},
}


def first_of(records: Any) -> Any:
    """Read the first record with either kind of client."""
    return anext(records) if hasattr(records, "__anext__") else next(records)


def a_broker() -> StoringBroker:
    """Return a broker with one record that accepts transactional producers."""
    broker = StoringBroker({"t": 1})
    broker.fill("t", b"a")
    broker.responders[ApiKey.INIT_PRODUCER_ID] = lambda request: InitProducerIdResponse(producer_id=1, producer_epoch=0)
    return broker


def given(kind: str) -> dict[str, Any]:
    """Return the options for a client."""
    consumer = {"group_id": "g", "enable_auto_finish": False, "auto_offset_reset": "earliest"}
    return {"Consumer": consumer, "Producer": {"transactional_id": "x"}}.get(kind, {})


def refused(name: str, value: Any, error: Exception | None, result: object) -> str | None:
    """Return what is wrong with the way in which a value was refused, or None."""
    if type(error) is LocalProtocolError and "no transaction is open" not in str(error):
        return None
    return f"{name} {value!r}: {error!r}, {result!r}"


@pytest.mark.parametrize("kind", TABLES)
def test_wrong_arguments(kind: str) -> None:
    async def run() -> None:
        broker = a_broker()
        client: Any
        async with getattr(kafkawire, kind)(str(BROKER), network=broker.network, **given(kind)) as client:
            if kind == "Consumer":
                client.assign([("t", 0)])
            wrong = []
            for name, (call, values) in TABLES[kind].items():
                for value in values:
                    error = result = None
                    try:
                        async with asyncio.timeout(PATIENCE_SECONDS):
                            result = call(client, value)
                            result = await result if inspect.isawaitable(result) else result
                    except Exception as raised:
                        error = raised
                    wrong.append(refused(name, value, error, result))
            assert list(filter(None, wrong)) == []
            await works(client, kind)

    asyncio.run(run())


async def works(client: Any, kind: str) -> None:
    """Use a client for ordinary work, with plain tuples as partitions."""
    if kind == "Consumer":
        assert await client.position(("t", 0)) == 0
        await client.commit({("t", 0): 1})
        assert await client.committed(("t", 0)) == {T0: OffsetAndMetadata(1)}
        assert await client.beginning_offsets([("t", 0)]) == {T0: 0}
        assert await client.end_offsets([("t", 0)]) == {T0: 1}
        assert (await client.offsets_for_times({("t", 0): 0})).keys() == {T0}
        client.pause(("t", 0))
        client.resume(("t", 0))
        assert [[*records] for records in (await client.getmany(60_000)).values()] != []
    elif kind == "Producer":
        await client.begin_transaction()
        await client.abort_transaction()
    else:
        assert (await client.list_offsets({("t", 0): kafkawire.OffsetTimestamp.LATEST}))[T0].offset == 1
        assert await client.list_group_offsets("g", [("t", 0)]) == {}


@pytest.mark.parametrize("kind", TABLES)
def test_wrong_arguments_of_the_blocking_clients(kind: str) -> None:
    broker = a_broker()
    client: Any
    with getattr(sync, kind)(str(BROKER), network=broker.network, **given(kind)) as client:
        if kind == "Consumer":
            client.assign([("t", 0)])
        wrong = []
        for name, (call, values) in TABLES[kind].items():
            for value in values:
                error = result = None
                try:
                    result = call(client, value)
                except Exception as raised:
                    error = raised
                wrong.append(refused(name, value, error, result))
        assert list(filter(None, wrong)) == []
        if kind == "Admin":
            assert client.describe_topics("t")
        elif kind == "Consumer":
            assert client.end_offsets([T0]) == {T0: 1}
        else:
            client.begin_transaction()
            client.abort_transaction()


def test_several_are_given_one_by_one_or_as_one_iterable() -> None:
    """Every method that takes several items accepts both forms; an empty list means no items, not all."""
    one, two = T0, TopicPartition("u", 0)
    broker = StoringBroker({"t": 1, "u": 1})
    broker.fill("t", b"a", b"b")
    broker.commits["g", "t", 0] = 1
    chosen = dict(given("Consumer"), enable_auto_commit=False, fetch_max_wait_ms=5)
    with sync.Consumer(str(BROKER), network=broker.network, **chosen) as consumer:
        for form in ((one, two), ([one, two],), ((one, two),), (dict.fromkeys((one, two)).keys(),)):
            consumer.assign(*form)
            assert consumer.assignment == {one, two}
            assert consumer.end_offsets(*form) == {one: 2, two: 0}
            assert consumer.beginning_offsets(*form).keys() == {one, two}
            assert consumer.committed(*form) == {one: OffsetAndMetadata(1)}
            for seek, place in (
                (lambda *named: consumer.seek_to_time(0, *named), 0),
                (consumer.seek_to_end, 2),
                (consumer.seek_to_beginning, 0),
            ):
                seek(*form)
                assert consumer.position(one) == place
            consumer.pause(*form)
            assert consumer.getmany(timeout_ms=0) == {}
            consumer.resume(*form)
            records = next(iter(consumer.getmany(timeout_ms=60_000).values()))
            for seek in (consumer.seek_to_beginning, consumer.pause, consumer.resume, consumer.committed):
                seek([])
            assert consumer.position(one) == 2
            consumer.finish(*records) if len(form) > 1 else consumer.finish(records)
        consumer.seek_to_beginning()
        assert consumer.position(one) == 0
        consumer.assign({one: 1})
        assert consumer.position(one) == 1
        consumer.assign([])
        assert consumer.assignment == frozenset()
    for named in (("t", "u"), (["t", "u"],)):
        with sync.Consumer(str(BROKER), *named, network=broker.network) as consumer:
            assert consumer.assignment == {one, two}
            consumer.subscribe("t")
            consumer.subscribe(*named)
    with sync.Admin(str(BROKER), network=broker.network) as admin:
        for named in (("t", "u"), (["t", "u"],), (("t", "u"),), ({"t", "u"},)):
            assert admin.describe_topics(*named).keys() == {"t", "u"}
        assert admin.list_group_offsets("g") == admin.list_group_offsets("g", one, two) == {one: OffsetAndMetadata(1)}
        assert admin.list_group_offsets("g", []) == {}
        committed = {"g": {one: OffsetAndMetadata(1)}}
        for groups in (["g"], {"g": None}, {"g": [one, two]}, {"g": one}):
            assert admin.list_group_offsets_of(groups).values == committed


@pytest.mark.parametrize("kind", TABLES)
def test_no_method_is_missing_from_the_tables(kind: str) -> None:
    public = {name for name in dir(getattr(kafkawire, kind)) if not name.startswith("_")}
    assert {name.split()[0] for name in TABLES[kind]} | OTHERS[kind] == public


class TwoArguments:
    """A listener in the style of confluent-kafka's callbacks."""

    def on_assigned(self, consumer: object, partitions: object) -> None: ...
    def on_revoked(self, consumer: object, partitions: object) -> None: ...
    def on_lost(self, consumer: object, partitions: object) -> None: ...


class OneArgument(ProducerInterceptor):
    def on_acknowledgement(self, metadata: object) -> None: ...  # type: ignore[override]  # wrong


@pytest.mark.parametrize("listener", [Mock(), create_autospec(kafkawire.RebalanceListener, instance=True)])
def test_what_takes_anything_can_be_a_listener(listener: Any) -> None:
    listener.on_lost = dict  # its signature is unknown
    kafkawire.Consumer(str(BROKER), "t", group_id="g", listener=listener)


@pytest.mark.parametrize("face", [kafkawire, sync], ids=lambda face: face.__name__)
@pytest.mark.parametrize(
    ("kind", "given", "text"),
    [
        ("Consumer", {"listener": print}, "listener=.*it lacks on_assigned and on_revoked and on_lost"),
        ("Consumer", {"listener": kafkawire.RebalanceListener}, "listener=.*expected an object, not its class"),
        (
            "Consumer",
            {"value_deserializer": "json"},
            "value_deserializer='json': expected a callable",
        ),
        ("Consumer", {"key_deserializer": 5}, "key_deserializer=5: expected a callable"),
        ("Consumer", {"interceptors": [object()]}, "interceptors=.*it lacks on_consume and on_commit"),
        (
            "Consumer",
            {"interceptors": [ConsumerInterceptor]},
            "interceptors=.*expected an object, not its class",
        ),
        ("Producer", {"value_serializer": "json"}, "value_serializer='json': expected a callable"),
        ("Producer", {"key_serializer": 5}, "key_serializer=5: expected a callable"),
        (
            "Consumer",
            {"listener": TwoArguments()},
            r"listener=.*: its on_assigned\(consumer, partitions\) is called with 1 argument$",
        ),
        (
            "Producer",
            {"interceptors": [OneArgument()]},
            r"interceptors=.*: its on_acknowledgement\(metadata\) is called with 2 arguments$",
        ),
        ("Producer", {"interceptors": [object()]}, "interceptors=.*it lacks on_send and on_acknowledgement"),
        (
            "Producer",
            {"interceptors": [ProducerInterceptor]},
            "interceptors=.*expected an object, not its class",
        ),
    ],
)
def test_what_a_client_calls_is_checked_when_it_is_made(face: Any, kind: str, given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        getattr(face, kind)(str(BROKER), **given)
