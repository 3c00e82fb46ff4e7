"""ACLs are written as Kafka writes them, other programs' changes are kept and followed, and damage allows nothing.

Method: use the embedded registry with a second session that writes in between, and inject each fault into each
operation of a change.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkawire.reference_broker.cluster.change_notifications import EXPIRATION_MS, RETRY_MS
from kafkawire.reference_broker.cluster.embedded_registry import Fault, RegistryCall
from kafkawire.reference_broker.cluster.registry_acls import RegistryAcls
from kafkawire.reference_broker.metadata.acl_store import AclStore, DeletedAcl, DeletedAcls
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.acls import (
    CLUSTER_NAME,
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    ResourcePattern,
    ResourcePatternFilter,
)
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, PatternType, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.registry.acls import CREATOR_ACL, READ_ACL
from kafkawire.sdk.registry.registry import (
    Create,
    CreateMode,
    Delete,
    GetAcl,
    NodeAcl,
    RegistryCode,
    RegistryError,
    SetData,
)
from kafkawire.sdk.registry.steps import ATTEMPTS_MAX, BATCH_MAX
from tests.reference_broker.cluster.cluster_nodes import ClusterBench, fault_at

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
PREFIXED = PatternType.PREFIXED
CHANGE, EXTENDED_CHANGE = "/kafka-acl-changes/acl_changes_", "/kafka-acl-extended-changes/acl_changes_"


def acl(
    name: str = "t",
    principal: str = "User:alice",
    operation: AclOperation = AclOperation.READ,
    *,
    kind: ResourceType = TOPIC,
    pattern_type: PatternType = PatternType.LITERAL,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:
    return AclBinding(
        ResourcePattern(kind, name, pattern_type), AccessControlEntry(principal, "*", operation, permission)
    )


def content(*entries: str) -> bytes:
    """Return the content of a node, given `User:alice Allow * Read`."""
    texts = (
        '{{"principal":"{}","permissionType":"{}","host":"{}","operation":"{}"}}'.format(*entry.split())
        for entry in entries
    )
    return f'{{"acls":[{",".join(texts)}],"version":1}}'.encode()


READ = content("User:alice Allow * Read")


class Bench(ClusterBench):
    """The ACLs of broker 1.

    Attributes:
        ready: the outcomes reported by `start`.
    """

    def __init__(self, *, is_secure: bool = False) -> None:
        super().__init__()
        self.timers = Timers()
        if is_secure:
            self.one = self.registry([("digest", "broker:secret")])
        self.acls = RegistryAcls(self.one, self.timers, lambda: self.now_ms, is_secure=is_secure)
        self.ready: list[Exception | None] = []

    def start(self) -> None:
        self.acls.start(self.ready.append)
        self.owner.run_all()

    def create(self, *bindings: AclBinding) -> list[BrokerError | None]:
        results: list[BrokerError | None] = []
        self.acls.create(bindings, results.extend)
        self.owner.until(lambda: bool(results))
        self.owner.run_all()
        return results

    def delete(self, *filters: AclBindingFilter) -> list[DeletedAcls]:
        results: list[DeletedAcls] = []
        self.acls.delete(filters, results.extend)
        self.owner.until(lambda: bool(results))
        self.owner.run_all()
        return results

    def notify(self, prefix: str, text: bytes) -> None:
        """Have the other program announce a change."""
        self.write(Create(prefix, text, CreateMode.PERSISTENT_SEQUENTIAL))
        self.owner.run_all()

    def advance(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.timers.fire(self.now_ms)
        self.owner.run_all()

    @property
    def known(self) -> set[AclBinding]:
        return set(self.acls.image)


@pytest.fixture
def bench() -> Bench:
    """A broker that follows the ACLs of a cluster that has none."""
    bench = Bench()
    bench.start()
    assert bench.ready == [None]
    return bench


def test_it_is_a_store(bench: Bench) -> None:
    assert isinstance(bench.acls, AclStore)


def test_the_nodes_of_kafka() -> None:
    bench = Bench()
    writes = bench.writes()
    bench.start()
    paths = {each.path for each in writes if isinstance(each, Create)}
    kinds = ("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User")
    assert paths == {
        "/kafka-acl",
        "/kafka-acl-extended",
        "/kafka-acl-extended/prefixed",
        "/kafka-acl-changes",
        "/kafka-acl-extended-changes",
        *(f"/kafka-acl/{kind}" for kind in kinds),
        *(f"/kafka-acl-extended/prefixed/{kind}" for kind in kinds),
    }
    again = Bench()
    again.start()
    again.start()
    assert again.ready == [None, None]


def test_the_writes_of_kafka(bench: Bench) -> None:
    writes = bench.writes()
    assert bench.create(acl()) == [None]
    assert bench.create(acl(principal="User:bob", permission=AclPermissionType.DENY), acl()) == [None, None]
    assert bench.create(acl("t-", kind=GROUP, pattern_type=PREFIXED, operation=AclOperation.DELETE)) == [None]
    both = content("User:alice Allow * Read", "User:bob Deny * Read")
    group = "/kafka-acl-extended/prefixed/Group/t-"
    extended = b'{"version":1,"resourceType":"GROUP","name":"t-","patternType":"PREFIXED"}'
    assert writes == [
        Create("/kafka-acl/Topic/t", READ),
        Create(CHANGE, b"TOPIC:t", CreateMode.PERSISTENT_SEQUENTIAL),
        SetData("/kafka-acl/Topic/t", both, 0),
        Create(CHANGE, b"TOPIC:t", CreateMode.PERSISTENT_SEQUENTIAL),
        Create(group, content("User:alice Allow * Delete")),
        Create(EXTENDED_CHANGE, extended, CreateMode.PERSISTENT_SEQUENTIAL),
    ]
    writes.clear()
    bench.delete(AclBindingFilter(entry_filter=AccessControlEntryFilter("User:alice")))
    assert writes == [
        SetData("/kafka-acl/Topic/t", content("User:bob Deny * Read"), 1),
        Create(CHANGE, b"TOPIC:t", CreateMode.PERSISTENT_SEQUENTIAL),
        Delete(group, 0),
        Create(EXTENDED_CHANGE, extended, CreateMode.PERSISTENT_SEQUENTIAL),
    ]
    assert bench.known == {acl(principal="User:bob", permission=AclPermissionType.DENY)}


def test_what_exists_is_not_written_again(bench: Bench) -> None:
    bench.create(acl())
    writes = bench.writes()
    assert bench.create(acl()) == [None]
    assert bench.delete(AclBindingFilter(ResourcePatternFilter(TOPIC, "none"))) == [[]]
    assert writes == []


def test_every_name_in_the_registry(bench: Bench) -> None:
    pattern = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME)
    others = (AclOperation.UNKNOWN, AclOperation.ANY, AclOperation.TWO_PHASE_COMMIT)  # not in Kafka 3.9
    kinds = [each for each in AclOperation if each not in others]
    entries = [AccessControlEntry("User:a", "*", each, AclPermissionType.ALLOW) for each in kinds]
    bench.create(*(AclBinding(pattern, entry) for entry in entries))
    text = bench.data(f"/kafka-acl/Cluster/{CLUSTER_NAME}") or ""
    for name in ("All", "Read", "ClusterAction", "DescribeConfigs", "AlterConfigs", "IdempotentWrite", "CreateTokens"):
        assert f'"operation":"{name}"' in text
    other = Bench()
    other.write(Create("/kafka-acl"), Create("/kafka-acl/Cluster"))
    other.write(Create(f"/kafka-acl/Cluster/{CLUSTER_NAME}", text.encode()))
    other.start()
    assert other.acls.image.entries == {pattern: tuple(entries)}


@pytest.mark.parametrize(
    ("binding", "code", "text"),
    [
        (acl("a/b"), ErrorCode.INVALID_REQUEST, "Failed to create ACL"),
        (acl(operation=AclOperation.UNKNOWN), ErrorCode.INVALID_REQUEST, "Failed to create ACL"),
        (acl(operation=AclOperation.TWO_PHASE_COMMIT), ErrorCode.INVALID_REQUEST, "Failed to create ACL"),
        (acl(kind=ResourceType.UNKNOWN), ErrorCode.INVALID_REQUEST, "Failed to create ACL"),
        (acl("u", principal="alice"), ErrorCode.UNKNOWN_SERVER_ERROR, ""),
        (acl(".."), ErrorCode.UNKNOWN_SERVER_ERROR, ""),
    ],
)
def test_an_acl_that_is_refused(bench: Bench, binding: AclBinding, code: ErrorCode, text: str) -> None:
    first, refused, last = bench.create(acl("a"), binding, acl("b"))
    assert (first, last) == (None, None)
    assert refused is not None
    assert (refused.code, refused.detail) == (code, text)
    assert bench.known == {acl("a"), acl("b")}


def test_a_wrong_principal_spoils_the_acls_of_its_resource(bench: Bench) -> None:
    first, second = bench.create(acl(), acl(principal="bob"))
    assert first is not None
    assert second is not None
    assert (first.code, second.code) == (ErrorCode.UNKNOWN_SERVER_ERROR,) * 2
    assert bench.known == set()


def test_each_deleted_acl_is_reported_by_one_filter(bench: Bench) -> None:
    bench.create(acl("t"), acl("t", "User:bob"), acl("u"))
    of_t = AclBindingFilter(ResourcePatternFilter(TOPIC, "t", PatternType.LITERAL))
    of_all = AclBindingFilter()
    first, second = bench.delete(of_t, of_all)
    assert first == [DeletedAcl(acl("t")), DeletedAcl(acl("t", "User:bob"))]
    assert second == [DeletedAcl(acl("u"))]
    assert bench.data("/kafka-acl/Topic/t") is None


def test_only_brokers_may_change_the_nodes() -> None:
    bench = Bench(is_secure=True)
    bench.start()
    bench.create(acl())
    outcomes = bench.owner.ask_all(bench.one, GetAcl("/kafka-acl/Topic/t"), GetAcl(f"{CHANGE}0000000000"))
    for each in outcomes:
        assert isinstance(each, NodeAcl)
        assert len(each.acl) == len(CREATOR_ACL + READ_ACL)


# Other programs.


def test_everything_is_read_at_the_start() -> None:
    bench = Bench()
    for path in ("/kafka-acl", "/kafka-acl/Topic", "/kafka-acl/Nothing", "/kafka-acl/Nothing/x"):
        bench.write(Create(path))
    for path in ("", "/prefixed", "/prefixed/Group"):
        bench.write(Create(f"/kafka-acl-extended{path}"))
    bench.write(Create("/kafka-acl/Topic/t", READ), Create("/kafka-acl-extended/prefixed/Group/g", READ))
    bench.start()
    assert bench.ready == [None]
    assert bench.known == {acl(), acl("g", kind=GROUP, pattern_type=PREFIXED)}


def test_many_acls_are_read_in_batches() -> None:
    bench = Bench()
    bench.write(Create("/kafka-acl"), Create("/kafka-acl/Topic"))
    bench.write(*(Create(f"/kafka-acl/Topic/t{number}", READ) for number in range(BATCH_MAX)))
    bench.write(Create("/kafka-acl/Topic/last", READ))
    bench.start()
    assert len(bench.acls.image) == BATCH_MAX + 1


def test_changes_of_other_programs_are_followed(bench: Bench) -> None:
    bench.write(Create("/kafka-acl/Topic/a:b", READ))
    bench.notify(CHANGE, b"TOPIC:a:b")
    assert bench.known == {acl("a:b")}
    bench.write(SetData("/kafka-acl/Topic/a:b", content("User:bob ALLOW * READ")))
    bench.notify(CHANGE, b"Topic:a:b")
    assert bench.known == {acl("a:b", "User:bob")}
    bench.write(Create("/kafka-acl-extended/prefixed/Topic/p", READ))
    bench.notify(EXTENDED_CHANGE, b'{"version":1,"resourceType":"TOPIC","name":"p","patternType":"PREFIXED"}')
    assert bench.known == {acl("a:b", "User:bob"), acl("p", pattern_type=PREFIXED)}
    bench.write(Delete("/kafka-acl/Topic/a:b"))
    bench.notify(CHANGE, b"TOPIC:a:b")
    assert bench.known == {acl("p", pattern_type=PREFIXED)}


#: Notifications that name no resource.
DAMAGED = [b"", b"TOPIC", b"TOPIC:", b"NOTHING:t", b"ANY:t", b"TOPIC:a/b", b"\xff"]


@pytest.mark.parametrize("text", DAMAGED, ids=repr)
def test_a_damaged_notification(bench: Bench, text: bytes) -> None:
    bench.notify(CHANGE, text)
    bench.notify(EXTENDED_CHANGE, text)
    bench.write(Create("/kafka-acl/Topic/t", READ))
    bench.notify(CHANGE, b"TOPIC:t")
    assert bench.known == {acl()}


def test_deleted_acls_are_forgotten_in_a_new_session(bench: Bench) -> None:
    bench.create(acl(), acl("p", pattern_type=PREFIXED))
    bench.one.disconnect()
    bench.expire(bench.one)
    bench.write(Delete("/kafka-acl/Topic/t"), Create("/kafka-acl/Topic/u", READ))
    bench.one.reconnect()
    bench.owner.run_all()
    assert bench.known == {acl("u"), acl("p", pattern_type=PREFIXED)}


def test_old_notifications_are_deleted(bench: Bench) -> None:
    bench.create(acl())
    bench.now_ms += EXPIRATION_MS + 1
    bench.create(acl("u"))
    assert [bench.data(f"{CHANGE}000000000{number}") is None for number in (0, 1)] == [True, False]


def test_another_change_at_the_same_time_is_kept(bench: Bench) -> None:
    bench.create(acl())
    writes = 0

    def plan(call: RegistryCall) -> None:
        nonlocal writes
        if isinstance(call.operation, SetData) and call.session_id == bench.one.session_id:
            writes += 1
            if writes == 1:
                both = content("User:alice Allow * Read", "User:carol Allow * Read")
                bench.other.submit([SetData("/kafka-acl/Topic/t", both)], lambda outcomes: None)
                bench.other._deliver()

    bench.embedded.plan = plan
    assert bench.create(acl(principal="User:bob")) == [None]
    assert writes == 2
    assert bench.known == {acl(principal=f"User:{name}") for name in ("alice", "bob", "carol")}


def test_a_node_that_others_change_again_and_again(bench: Bench) -> None:
    bench.create(acl())
    writes = 0

    def plan(call: RegistryCall) -> RegistryCode | None:
        nonlocal writes
        is_write = isinstance(call.operation, SetData) and call.session_id == bench.one.session_id
        writes += is_write
        return RegistryCode.BAD_VERSION if is_write else None

    bench.embedded.plan = plan
    (error,) = bench.create(acl(principal="User:bob"))
    assert error is not None
    assert (error.code, writes) == (ErrorCode.UNKNOWN_SERVER_ERROR, ATTEMPTS_MAX)
    (result,) = bench.delete(AclBindingFilter())
    assert not isinstance(result, BrokerError)


# Damage and faults.


@pytest.mark.parametrize(
    "damaged", [b"{", b"\xff", b'{"version":2,"acls":[]}', b'{"version":1}', content("alice Allow * Read")], ids=repr
)
def test_damaged_acls_allow_nothing(caplog: pytest.LogCaptureFixture, damaged: bytes) -> None:
    bench = Bench()
    bench.write(Create("/kafka-acl"), Create("/kafka-acl/Topic"))
    bench.write(Create("/kafka-acl/Topic/bad", damaged), Create("/kafka-acl/Topic/t", READ))
    bench.start()
    assert bench.ready == [None]
    denied = acl("bad", "User:*", AclOperation.ALL, permission=AclPermissionType.DENY)
    assert bench.known == {acl(), denied}
    assert "the resources of damaged ACLs are denied to everybody: /kafka-acl/Topic/bad" in caplog.text
    (error,) = bench.create(acl("bad"))
    assert error is not None
    assert error.code == ErrorCode.UNKNOWN_SERVER_ERROR
    bench.write(SetData("/kafka-acl/Topic/t", damaged))
    bench.notify(CHANGE, b"TOPIC:t")
    assert acl() in bench.known, "the ACLs that were read before still apply"
    assert "keep their earlier ACLs" in caplog.text
    bench.write(SetData("/kafka-acl/Topic/bad", READ))
    bench.notify(CHANGE, b"TOPIC:bad")
    assert bench.known == {acl(), acl("bad")}


def test_operations_of_a_later_release_allow_nothing(bench: Bench) -> None:
    bench.write(Create("/kafka-acl/Topic/t", content("User:alice Allow * Fly", "User:alice Perhaps * Read")))
    bench.notify(CHANGE, b"TOPIC:t")
    (first, second) = bench.acls.image.entries[ResourcePattern(TOPIC, "t")]
    assert (first.operation, second.permission_type) == (AclOperation.UNKNOWN, AclPermissionType.UNKNOWN)


#: The operations of a change: a read, the write, the announcement.
OPERATIONS = 3


@pytest.mark.parametrize("fault", [*Fault])
@pytest.mark.parametrize("number", range(1, OPERATIONS + 1))
def test_each_operation_meets_each_fault(bench: Bench, number: int, fault: Fault) -> None:
    other = RegistryAcls(bench.other, bench.timers, lambda: bench.now_ms)
    other.start(lambda error: None)
    bench.owner.run_all()
    met = fault_at(bench, number, fault)
    results: list[BrokerError | None] = []
    bench.acls.create([acl()], results.extend)
    bench.owner.until(lambda: bool(results))
    bench.owner.run_all()
    bench.embedded.plan = None
    bench.advance(RETRY_MS)
    assert len(met) == 1
    assert results == [None]
    assert bench.known == {acl()}
    assert set(other.image) == {acl()}, "the change is announced"
    assert bench.delete(AclBindingFilter()) == [[DeletedAcl(acl())]]
    assert set(other.image) == set()


def test_a_registry_that_refuses(bench: Bench) -> None:
    def plan(call: RegistryCall) -> RegistryCode | None:
        return RegistryCode.NO_AUTH if isinstance(call.operation, SetData | Create | Delete) else None

    bench.create(acl("t"))
    bench.embedded.plan = plan
    (error,) = bench.create(acl("u"))
    assert error is not None
    assert error.code == ErrorCode.UNKNOWN_SERVER_ERROR
    (result,) = bench.delete(AclBindingFilter())
    assert not isinstance(result, BrokerError)
    ((binding, failure),) = result
    assert failure is not None
    assert (binding, failure.code) == (acl("t"), ErrorCode.UNKNOWN_SERVER_ERROR)


def test_a_start_that_fails_is_told() -> None:
    bench = Bench()
    bench.embedded.plan = lambda call: RegistryCode.NO_AUTH if "GetChildren" in repr(call.operation) else None
    bench.start()
    (error,) = bench.ready
    assert isinstance(error, RegistryError)
    assert error.code is RegistryCode.NO_AUTH


CLOSED: list[Callable[[Bench], object]] = [
    lambda bench: bench.notify(CHANGE, b"TOPIC:t"),
    lambda bench: bench.advance(RETRY_MS),
    lambda bench: (bench.expire(bench.one), bench.owner.run_all()),
]


@pytest.mark.parametrize("event", range(len(CLOSED)))
def test_nothing_is_followed_after_the_end(bench: Bench, event: int) -> None:
    bench.acls.close()
    bench.write(Create("/kafka-acl/Topic/t", READ))
    CLOSED[event](bench)
    assert bench.known == set()
