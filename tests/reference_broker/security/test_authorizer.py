"""The authorizer decides as Apache Kafka's authorizers do, keeps decisions only while they hold, and logs them.

Method: check tables of ACLs and operations from `StandardAuthorizerTest` and `AuthorizerTest` in Apache Kafka; then
compare the decisions on random ACLs with those of the rules written out plainly.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest

from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.metadata.acl_store import NO_ACLS, AclImage, AclStore, CreateDone, DeleteDone
from kafkawire.reference_broker.metadata.principal import KafkaPrincipal
from kafkawire.reference_broker.security.authorizer import (
    DECISIONS_MAX,
    AclAuthorizer,
    NoAuthorizer,
    authorizer_of,
    java_address,
)
from kafkawire.sdk.protocol.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    ResourcePattern,
)
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, PatternType, ResourceType

Op = AclOperation
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
ALICE = KafkaPrincipal("User", "alice")


class Peer:
    def __init__(self, principal: KafkaPrincipal = ALICE, host: str = "/10.0.0.1") -> None:
        self.principal = principal
        self.host = host


class Api(NamedTuple):
    name: str = "Fetch"


class Request(NamedTuple):
    peer: Peer = Peer()
    api: Api = Api()


class Store:
    """ACLs that a test sets."""

    def __init__(self, *bindings: AclBinding, is_registry: bool = False) -> None:
        self.is_registry = is_registry
        self.image = NO_ACLS
        self.add(*bindings)

    def add(self, *bindings: AclBinding) -> None:
        entries: dict[ResourcePattern, list[AccessControlEntry]] = {}
        for pattern, entry in (*self.image, *bindings):
            entries.setdefault(pattern, []).append(entry)
        self.image = AclImage({pattern: tuple(each) for pattern, each in entries.items()})

    def create(self, bindings: Sequence[AclBinding], done: CreateDone) -> None:
        raise NotImplementedError

    def delete(self, filters: Sequence[AclBindingFilter], done: DeleteDone) -> None:
        raise NotImplementedError


def acl(
    permission: AclPermissionType,
    operation: AclOperation,
    name: str = "orders",
    pattern_type: PatternType = LITERAL,
    *,
    kind: ResourceType = TOPIC,
    principal: str = "User:alice",
    host: str = "*",
) -> AclBinding:
    entry = AccessControlEntry(principal, host, operation, permission)
    return AclBinding(ResourcePattern(kind, name, pattern_type), entry)


def authorizer(*bindings: AclBinding, is_registry: bool = False, allows_without_acls: bool = False) -> AclAuthorizer:
    return AclAuthorizer(
        Store(*bindings, is_registry=is_registry),
        [KafkaPrincipal("User", "admin")],
        allows_without_acls=allows_without_acls,
    )


#: ACLs, an operation on the topic orders by Alice from 10.0.0.1, and whether it is allowed.
DECISIONS = [
    ([], Op.READ, False),
    ([acl(ALLOW, Op.READ)], Op.READ, True),
    ([acl(ALLOW, Op.READ)], Op.WRITE, False),
    ([acl(ALLOW, Op.ALL)], Op.WRITE, True),
    ([acl(ALLOW, Op.READ, "order")], Op.READ, False),
    ([acl(ALLOW, Op.READ, "orders2")], Op.READ, False),
    ([acl(ALLOW, Op.READ, kind=GROUP)], Op.READ, False),
    ([acl(ALLOW, Op.READ, WILDCARD)], Op.READ, True),
    ([acl(ALLOW, Op.READ, "ord", PREFIXED)], Op.READ, True),
    ([acl(ALLOW, Op.READ, "orders", PREFIXED)], Op.READ, True),
    ([acl(ALLOW, Op.READ, "orders2", PREFIXED)], Op.READ, False),
    ([acl(ALLOW, Op.READ, WILDCARD, PREFIXED)], Op.READ, False),
    # who and where
    ([acl(ALLOW, Op.READ, principal="User:bob")], Op.READ, False),
    ([acl(ALLOW, Op.READ, principal="User:*")], Op.READ, True),
    ([acl(ALLOW, Op.READ, principal="Group:alice")], Op.READ, False),
    ([acl(ALLOW, Op.READ, principal="Group:*")], Op.READ, False),
    ([acl(ALLOW, Op.READ, host="10.0.0.1")], Op.READ, True),
    ([acl(ALLOW, Op.READ, host="10.0.0.2")], Op.READ, False),
    # a denial takes precedence, wherever it comes from
    ([acl(ALLOW, Op.READ), acl(DENY, Op.READ)], Op.READ, False),
    ([acl(ALLOW, Op.READ), acl(DENY, Op.READ, WILDCARD)], Op.READ, False),
    ([acl(ALLOW, Op.READ), acl(DENY, Op.READ, "o", PREFIXED)], Op.READ, False),
    ([acl(DENY, Op.READ), acl(ALLOW, Op.READ, WILDCARD)], Op.READ, False),
    ([acl(ALLOW, Op.READ), acl(DENY, Op.ALL, WILDCARD)], Op.READ, False),
    ([acl(ALLOW, Op.READ), acl(DENY, Op.WRITE)], Op.READ, True),
    ([acl(ALLOW, Op.READ), acl(DENY, Op.READ, principal="User:bob")], Op.READ, True),
    ([acl(ALLOW, Op.READ), acl(DENY, Op.READ, host="10.0.0.2")], Op.READ, True),
    ([acl(ALLOW, Op.READ), acl(DENY, Op.READ, "orders2", PREFIXED)], Op.READ, True),
    # operations that include others, but only if they are allowed
    *(([acl(ALLOW, each)], Op.DESCRIBE, True) for each in (Op.READ, Op.WRITE, Op.DELETE, Op.ALTER, Op.DESCRIBE)),
    *(([acl(ALLOW, each)], Op.DESCRIBE, False) for each in (Op.CREATE, Op.ALTER_CONFIGS, Op.CLUSTER_ACTION)),
    ([acl(ALLOW, Op.ALTER_CONFIGS)], Op.DESCRIBE_CONFIGS, True),
    ([acl(ALLOW, Op.ALTER)], Op.DESCRIBE_CONFIGS, False),
    ([acl(ALLOW, Op.DESCRIBE), acl(DENY, Op.READ)], Op.DESCRIBE, True),
    ([acl(ALLOW, Op.READ), acl(DENY, Op.DESCRIBE)], Op.DESCRIBE, False),
    ([acl(ALLOW, Op.READ), acl(DENY, Op.DESCRIBE)], Op.READ, True),
    ([acl(ALLOW, Op.ALTER_CONFIGS), acl(DENY, Op.DESCRIBE_CONFIGS)], Op.DESCRIBE_CONFIGS, False),
]


@pytest.mark.parametrize(("bindings", "operation", "expected"), DECISIONS)
def test_decisions(bindings: list[AclBinding], operation: AclOperation, expected: bool) -> None:
    decides = authorizer(*bindings)
    for _ in range(2):  # the second decision is one that was kept
        assert decides.allows(Request(), operation, TOPIC, "orders") is expected
        assert list(decides.allowed(Request(), operation, TOPIC, ["orders"])) == ["orders"] * expected


def test_superusers_may_do_anything() -> None:
    decides = authorizer(acl(DENY, Op.ALL, WILDCARD, principal="User:*"))
    admin = Request(Peer(KafkaPrincipal("User", "admin")))
    assert decides.allows(admin, Op.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
    assert decides.allows(admin, Op.WRITE, TOPIC, "orders")
    assert decides.allows_any(admin, Op.WRITE, TOPIC)
    assert not decides.allows(Request(Peer(KafkaPrincipal("Group", "admin"))), Op.READ, TOPIC, "orders")


def test_resources_without_acls() -> None:
    decides = authorizer(acl(ALLOW, Op.READ, principal="User:bob"), allows_without_acls=True)
    assert decides.allows(Request(), Op.READ, TOPIC, "other")
    assert decides.allows(Request(), Op.READ, GROUP, "orders")
    assert not decides.allows(Request(), Op.READ, TOPIC, "orders")


def test_a_change_takes_effect_at_once() -> None:
    store = Store()
    decides = AclAuthorizer(store, [], allows_without_acls=False)
    before = decides.state
    assert not decides.allows(Request(), Op.READ, TOPIC, "orders")
    assert not decides.allows_any(Request(), Op.READ, TOPIC)
    assert decides.state is before
    store.add(acl(ALLOW, Op.READ))
    assert decides.state is not before
    assert decides.allows_any(Request(), Op.READ, TOPIC)
    assert decides.allows(Request(), Op.READ, TOPIC, "orders")
    store.image = NO_ACLS
    assert not decides.allows(Request(), Op.READ, TOPIC, "orders")
    assert not decides.allows_any(Request(), Op.READ, TOPIC)


def test_nobody_gets_the_decision_that_was_kept_for_another_client() -> None:
    decides = authorizer(acl(ALLOW, Op.READ, host="10.0.0.1"))
    clients = [
        (Peer(), True),
        (Peer(host="/10.0.0.2"), False),
        (Peer(KafkaPrincipal("User", "bob")), False),
        (Peer(KafkaPrincipal("Group", "alice")), False),
    ]
    for peer, expected in (*clients, *reversed(clients)):
        assert decides.allows(Request(peer), Op.READ, TOPIC, "orders") is expected
        assert decides.allows_any(Request(peer), Op.READ, TOPIC) is expected


def test_no_decision_is_kept_for_another_operation_or_resource() -> None:
    decides = authorizer(acl(ALLOW, Op.READ))
    for _ in range(2):
        assert decides.allows(Request(), Op.READ, TOPIC, "orders")
        assert decides.allows_any(Request(), Op.READ, TOPIC)
        for operation, kind, name in ((Op.WRITE, TOPIC, "orders"), (Op.READ, GROUP, "orders"), (Op.READ, TOPIC, "o")):
            assert not decides.allows(Request(), operation, kind, name)
        for operation, kind in ((Op.WRITE, TOPIC), (Op.READ, GROUP)):
            assert not decides.allows_any(Request(), operation, kind)


def test_only_so_many_decisions_are_kept() -> None:
    decides = authorizer(acl(ALLOW, Op.READ, "1", PREFIXED))
    for number in range(2 * DECISIONS_MAX):
        assert decides.allows(Request(), Op.READ, TOPIC, str(number)) is str(number).startswith("1")
        assert len(decides._decisions) <= DECISIONS_MAX
    decides._decisions.clear()
    assert decides.allows(Request(), Op.READ, TOPIC, "1" * 1_000)
    assert not decides._decisions


# Any resource of a type.

#: ACLs, whether Alice may write to any topic in Kafka 4.3, and in 3.9 if that is different.
ANY = [
    ([], False),
    ([acl(ALLOW, Op.WRITE)], True),
    ([acl(ALLOW, Op.ALL)], True),
    ([acl(ALLOW, Op.READ)], False),
    ([acl(ALLOW, Op.WRITE, kind=GROUP)], False),
    ([acl(ALLOW, Op.WRITE, principal="User:bob")], False),
    ([acl(ALLOW, Op.WRITE, host="10.0.0.2")], False),
    ([acl(ALLOW, Op.WRITE, WILDCARD), acl(DENY, Op.WRITE)], True),
    ([acl(ALLOW, Op.WRITE), acl(DENY, Op.WRITE)], False),
    ([acl(ALLOW, Op.WRITE), acl(DENY, Op.WRITE, WILDCARD)], False),
    ([acl(ALLOW, Op.WRITE), acl(DENY, Op.WRITE, "ord", PREFIXED)], False),
    ([acl(ALLOW, Op.WRITE), acl(DENY, Op.WRITE, "orders2", PREFIXED)], True),
    ([acl(ALLOW, Op.WRITE, "ord", PREFIXED), acl(DENY, Op.WRITE, "orders")], True),
    ([acl(ALLOW, Op.WRITE, "ord", PREFIXED), acl(DENY, Op.WRITE, "ord")], True),
    ([acl(ALLOW, Op.WRITE, "ord", PREFIXED), acl(DENY, Op.WRITE, "o", PREFIXED)], False),
    ([acl(ALLOW, Op.WRITE, "ord", PREFIXED), acl(DENY, Op.WRITE, "ord", PREFIXED)], False),
    ([acl(ALLOW, Op.WRITE), acl(ALLOW, Op.WRITE, "b"), acl(DENY, Op.WRITE)], True),
]


@pytest.mark.parametrize("is_registry", [False, True])
@pytest.mark.parametrize(("bindings", "expected"), ANY)
def test_any_resource_of_a_type(bindings: list[AclBinding], expected: bool, is_registry: bool) -> None:
    decides = authorizer(*bindings, is_registry=is_registry)
    for _ in range(2):
        assert decides.allows_any(Request(), Op.WRITE, TOPIC) is expected


def test_any_resource_if_those_without_acls_are_open() -> None:
    denied = acl(DENY, Op.WRITE, "hard", PREFIXED)
    for is_registry in (False, True):
        decides = authorizer(is_registry=is_registry, allows_without_acls=True)
        assert decides.allows_any(Request(), Op.WRITE, TOPIC)
        decides = authorizer(acl(DENY, Op.WRITE, WILDCARD), is_registry=is_registry, allows_without_acls=True)
        assert not decides.allows_any(Request(), Op.WRITE, TOPIC)
    # Kafka 4.3 tries a topic of its own; 3.9 does not.
    assert not authorizer(denied, allows_without_acls=True).allows_any(Request(), Op.WRITE, TOPIC)
    assert authorizer(denied, is_registry=True, allows_without_acls=True).allows_any(Request(), Op.WRITE, TOPIC)


# Addresses.


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("fe80::1:0%eth0", "fe80:0:0:0:0:0:1:0%eth0"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("not:an:address", "not:an:address"),
        ("host", "host"),
    ],
)
def test_addresses_are_those_of_java(address: str, expected: str) -> None:
    assert java_address(address) == expected
    decides = authorizer(acl(ALLOW, Op.READ, host=expected))
    assert decides.allows(Request(Peer(host=f"/{address}")), Op.READ, TOPIC, "orders")


# The log.


def test_what_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafkawire.broker.authorizer")
    decides = authorizer(acl(ALLOW, Op.READ, "ord", PREFIXED), acl(DENY, Op.WRITE))
    assert decides.allows(Request(), Op.READ, TOPIC, "orders")
    assert not decides.allows(Request(), Op.WRITE, TOPIC, "orders", count=3)
    assert not decides.allows(Request(), Op.DELETE, TOPIC, "a\nb")
    assert not decides.allows(Request(), Op.DELETE, TOPIC, "orders", logs_denied=False)
    start = "Principal = User:alice is Denied operation ="
    assert caplog.messages == [
        f"{start} WRITE from host = 10.0.0.1 on resource = Topic:LITERAL:orders for request = Fetch with "
        "resourceRefCount = 3 based on rule MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=orders, "
        "patternType=LITERAL, principal=User:alice, host=*, operation=WRITE, permissionType=DENY])",
        f"{start} DELETE from host = 10.0.0.1 on resource = 'Topic:LITERAL:a\\nb' for request = Fetch with "
        "resourceRefCount = 1 based on rule DefaultDeny",
    ]
    caplog.clear()
    caplog.set_level(logging.DEBUG, "kafkawire.broker.authorizer")
    assert decides.allows(Request(), Op.READ, TOPIC, "orders")
    assert decides.allows(Request(), Op.READ, TOPIC, "orders", logs_allowed=False)
    assert decides.allows(Request(Peer(KafkaPrincipal("User", "admin"))), Op.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
    assert decides.allows_any(Request(), Op.READ, TOPIC)
    assert [message.partition(" based on rule ")[2].partition("(")[0] for message in caplog.messages] == [
        "MatchingAcl",
        "SuperUser",
        "DefaultAllow",
    ]


# Without an authorizer, and options.


def test_no_authorizer() -> None:
    decides = NoAuthorizer()
    assert decides.allows(Request(), Op.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
    assert decides.allows_any(Request(), Op.WRITE, TOPIC)
    assert decides.allowed(Request(), Op.READ, TOPIC, ["a"]) == ["a"]
    assert (decides.acls, decides.state) == (None, None)


def test_the_options() -> None:
    options = read_options({"super.users": "User:root; User:CN=a,OU=b;", "allow.everyone.if.no.acl.found": "true"})
    store: AclStore = Store(acl(DENY, Op.ALL, WILDCARD, principal="User:*"))
    decides = authorizer_of(options, store, is_registry=False)
    for name in ("root", "CN=a,OU=b"):
        assert decides.allows(Request(Peer(KafkaPrincipal("User", name))), Op.READ, TOPIC, "orders")
    assert not decides.allows(Request(), Op.READ, TOPIC, "orders")
    assert decides.allows(Request(), Op.READ, GROUP, "g")
    assert isinstance(authorizer_of(options, None, is_registry=True), NoAuthorizer)


# Random ACLs.


def random_acls(chance: random.Random) -> Iterator[AclBinding]:
    for _ in range(chance.randint(0, 6)):
        yield acl(
            chance.choice((ALLOW, ALLOW, DENY)),
            chance.choice((Op.READ, Op.WRITE, Op.DESCRIBE, Op.ALL)),
            chance.choice(("a", "ab", "abc", WILDCARD, "b")),
            chance.choice((LITERAL, PREFIXED)),
            principal=chance.choice(("User:alice", "User:*", "User:bob")),
            host=chance.choice(("*", "10.0.0.1", "10.0.0.2")),
        )


def plainly(bindings: Sequence[AclBinding], operation: AclOperation, name: str) -> bool:
    """Return the decision by the rules, written out."""
    applying = [
        entry
        for pattern, entry in bindings
        if (name.startswith(pattern.name) if pattern.pattern_type == PREFIXED else pattern.name in (name, WILDCARD))
        and entry.principal in ("User:alice", "User:*")
        and entry.host in ("10.0.0.1", "*")
    ]
    if any(each.permission_type == DENY and each.operation in (operation, Op.ALL) for each in applying):
        return False
    enough = {operation, Op.ALL, *((Op.READ, Op.WRITE) if operation == Op.DESCRIBE else ())}
    return any(each.permission_type == ALLOW and each.operation in enough for each in applying)


def test_random_acls() -> None:
    chance = random.Random(11)
    for _ in range(2_000):
        bindings = list(random_acls(chance))
        decides = authorizer(*bindings)
        for name in ("a", "ab", "abcd", "c"):
            for operation in (Op.READ, Op.DESCRIBE):
                expected = plainly(bindings, operation, name)
                assert decides.allows(Request(), operation, TOPIC, name) is expected, (bindings, operation, name)
        # If a topic that an ACL names may be read, then so may any.
        if any(decides.allows(Request(), Op.READ, TOPIC, name) for name in ("a", "ab", "abc", "b")):
            assert decides.allows_any(Request(), Op.READ, TOPIC), bindings
