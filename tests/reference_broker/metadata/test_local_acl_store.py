"""The ACLs of a standalone broker.

Goal: ACLs are durable once their results are known, each is refused alone with Kafka's text, and damage is not mistaken
for ACLs.
Method: restart a store on an in-memory disk, and make it fail; the refusals are those in Kafka's
`AclControlManagerTest`.
"""

from __future__ import annotations

import errno

import pytest

from kafkawire.reference_broker.metadata.acl_store import DeletedAcl, DeletedAcls
from kafkawire.reference_broker.metadata.local_acl_store import LocalAclStore
from kafkawire.reference_broker.metadata.stored_entries import FILE_BYTES_MAX
from kafkawire.reference_broker.storage.checkpoints import ACLS, DamagedFile
from kafkawire.reference_broker.storage.disk.disk import replace_file
from kafkawire.reference_broker.storage.disk.memory import DiskCall, MemoryDisk
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.acls import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    ResourcePattern,
    ResourcePatternFilter,
)
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, PatternType, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench

TOPIC = ResourceType.TOPIC
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY


def acl(
    name: str = "t",
    principal: str = "User:alice",
    operation: AclOperation = AclOperation.READ,
    *,
    kind: ResourceType = TOPIC,
    pattern_type: PatternType = PatternType.LITERAL,
    permission: AclPermissionType = ALLOW,
    host: str = "*",
) -> AclBinding:
    return AclBinding(
        ResourcePattern(kind, name, pattern_type), AccessControlEntry(principal, host, operation, permission)
    )


def store_on(disk: MemoryDisk) -> LocalAclStore:
    return LocalAclStore(BrokerBench(disk).core.directory)


def created(store: LocalAclStore, *bindings: AclBinding) -> list[BrokerError | None]:
    results: list[BrokerError | None] = []
    store.create(bindings, results.extend)
    return results


def deleted(store: LocalAclStore, *filters: AclBindingFilter) -> list[DeletedAcls]:
    results: list[DeletedAcls] = []
    store.delete(filters, results.extend)
    return results


def test_acls_survive_a_restart() -> None:
    bench = BrokerBench(MemoryDisk())
    store = LocalAclStore(bench.core.directory)
    all_kinds = [
        acl(),
        acl(permission=DENY),
        acl("a/b%2F=\n", "User:CN=a/b:c, d", AclOperation.ALL, kind=ResourceType.GROUP, host="::1"),
        acl("kafka-cluster", operation=AclOperation.CLUSTER_ACTION, kind=ResourceType.CLUSTER),
        acl("x-", pattern_type=PatternType.PREFIXED),
        acl("é", kind=ResourceType.TRANSACTIONAL_ID, operation=AclOperation.TWO_PHASE_COMMIT),
    ]
    assert created(store, *all_kinds, acl()) == [None] * 7
    bench.core.close()
    bench.restart_again()
    again = LocalAclStore(bench.core.directory)
    assert set(again.image) == set(all_kinds)
    assert len(again.image) == 6
    assert acl() in again.image
    assert acl("u") not in again.image


def test_filters_delete_and_tell_what() -> None:
    store = store_on(MemoryDisk())
    created(store, acl("t"), acl("u"), acl("u", permission=DENY))
    of_u = AclBindingFilter(ResourcePatternFilter(TOPIC, "u", PatternType.LITERAL))
    denied = AclBindingFilter(entry_filter=AccessControlEntryFilter(permission_type=DENY))
    nothing = AclBindingFilter(ResourcePatternFilter(TOPIC, "v"))
    first, second, third = deleted(store, of_u, denied, nothing)
    assert not isinstance(first, BrokerError)
    assert set(first) == {DeletedAcl(acl("u")), DeletedAcl(acl("u", permission=DENY))}
    assert (second, third) == ([DeletedAcl(acl("u", permission=DENY))], [])
    assert list(store.image) == [acl("t")]


@pytest.mark.parametrize(
    ("binding", "reason"),
    [
        (acl(kind=ResourceType.ANY), "Invalid resourceType ANY"),
        (acl(kind=ResourceType.UNKNOWN), "Invalid resourceType UNKNOWN"),
        (acl(pattern_type=PatternType.MATCH), "Invalid patternType MATCH"),
        (acl(operation=AclOperation.ANY), "Invalid operation ANY"),
        (acl(permission=AclPermissionType.ANY), "Invalid permissionType ANY"),
        (acl(""), "Resource name should not be empty"),
        (acl(principal="alice"), "Could not parse principal from `alice` (no colon is present separating the "),
    ],
)
def test_an_acl_is_refused_alone(binding: AclBinding, reason: str) -> None:
    store = store_on(MemoryDisk())
    first, refused, last = created(store, acl("a"), binding, acl("b"))
    assert (first, last) == (None, None)
    assert refused is not None
    assert refused.code == ErrorCode.INVALID_REQUEST
    assert refused.detail.startswith(reason)
    assert set(store.image) == {acl("a"), acl("b")}


def test_too_much_is_refused() -> None:
    store = store_on(MemoryDisk())
    assert created(store, acl("x" * (FILE_BYTES_MAX // 2))) == [None]
    (error,) = created(store, acl("y" * (FILE_BYTES_MAX // 2)))
    assert error is not None
    assert (error.code, len(store.image)) == (ErrorCode.POLICY_VIOLATION, 1)


def test_a_disk_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    store = store_on(disk)
    created(store, acl())

    def plan(call: DiskCall) -> None:
        if call.path.startswith(ACLS):
            raise OSError(errno.EIO, "a planned fault", call.path)

    disk.plan = plan
    (error,) = created(store, acl("u"))
    assert error is not None
    assert error.code == ErrorCode.KAFKA_STORAGE_ERROR
    (outcome,) = deleted(store, AclBindingFilter())
    assert isinstance(outcome, BrokerError)
    assert outcome.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert list(store.image) == [acl()]
    disk.plan = None
    assert deleted(store, AclBindingFilter()) == [[DeletedAcl(acl())]]


@pytest.mark.parametrize(
    "line",
    [
        "topic/literal/t/User\\:a/*/read=maybe",
        "topic/literal/t/User\\:a/*/read=any",
        "topic/literal/t/User\\:a/*/fly=allow",
        "topic/match/t/User\\:a/*/read=allow",
        "topic/literal/t/a/*/read=allow",
        "topic/literal/t=allow",
    ],
)
def test_a_damaged_file_is_refused(line: str) -> None:
    bench = BrokerBench(MemoryDisk())
    replace_file(bench.disk, ACLS, f"{line}\n".encode())
    with pytest.raises(DamagedFile, match=r"acls is damaged: the entry .* is not an ACL"):
        LocalAclStore(bench.core.directory)
