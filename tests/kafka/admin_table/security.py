"""Cases about ACLs, quotas, SCRAM credentials and delegation tokens, and about a user without rights."""

from __future__ import annotations

from typing import Any

from kafkawire import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    ClientQuotaAlteration,
    ClientQuotaEntity,
    ClientQuotaFilter,
    ClientQuotaFilterComponent,
    ConfigResourceType,
    DefaultEntity,
    NewTopic,
    OffsetTimestamp,
    ResourcePattern,
    ResourcePatternFilter,
    ScramMechanism,
    TopicPartition,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafkawire.sdk.protocol.tables.enums import AclOperation, AclPermissionType, PatternType, ResourceType
from tests.kafka.admin_table.cases import Case, Kept, Masks, Scene, java, make, new, ours, tool

__all__ = ["SCENES"]


def acl(
    kind: str = "TOPIC",
    name: str = "t",
    pattern: str = "LITERAL",
    *,
    who: str = "User:bob",
    host: str = "*",
    operation: str = "READ",
    permission: str = "ALLOW",
) -> list[list[str]]:
    """Return an AclBinding of Java's Admin."""
    return [[kind, name, pattern], [who, host, operation, permission]]


def matching(
    kind: str = "ANY",
    name: str | None = None,
    pattern: str = "ANY",
    *,
    who: str | None = None,
    host: str | None = None,
    operation: str = "ANY",
    permission: str = "ANY",
) -> list[list[str | None]]:
    """Return an AclBindingFilter of Java's Admin."""
    return [[kind, name, pattern], [who, host, operation, permission]]


OUR_ACL = AclBinding(
    ResourcePattern(ResourceType.TOPIC, "ours", PatternType.PREFIXED),
    AccessControlEntry("User:carol", "127.0.0.1", AclOperation.WRITE, AclPermissionType.DENY),
)
OURS_OF_CAROL = AclBindingFilter(entry_filter=AccessControlEntryFilter("User:carol"))


def quota(entity: dict[str, str | None], **values: float | None) -> list[Any]:
    """Return a ClientQuotaAlteration of Java's Admin."""
    named = [[key.replace("_", "-") if key == "client_id" else key, value] for key, value in entity.items()]
    ops = [new(key, value, of="quota.ClientQuotaAlteration$Op") for key, value in values.items()]
    return [[named], ops]


def component(make_name: str, *arguments: str) -> object:
    """Return a ClientQuotaFilterComponent of Java's Admin."""
    return make(make_name, *arguments)


def upsertion(user: str, mechanism: str = "SCRAM_SHA_256", iterations: int = 4096, password: str = "secret") -> object:
    """Return a UserScramCredentialUpsertion of Java's Admin."""
    return new(user, [mechanism, iterations], password, of="UserScramCredentialUpsertion")


def deletion(user: str, mechanism: str = "SCRAM_SHA_256") -> object:
    """Return a UserScramCredentialDeletion of Java's Admin."""
    return new(user, mechanism, of="UserScramCredentialDeletion")


def altered(name: str, *alterations: object) -> Case:
    """Return a case that changes SCRAM credentials."""
    return java(name, "alterUserScramCredentials", [list(alterations)])


BOB, CAROL = ClientQuotaEntity("bob"), ClientQuotaEntity("carol", "app")

TOKEN = (("token", ["delegationToken"]), ("hmac", ["delegationToken", "hmac"]))
#: What differs between tokens.
TOKENS: Masks = (
    (r"(tokenId : )\S+", r"\1ID\","),
    (r'("(token_?[iI]d)": ")[^"]+', r"\1ID"),
    (r"[\w-]{22}\s+[\w+/=]{80,}\s", "TOKEN "),
    (r" {2,}", "  "),
)

#: The order of a set in Java is different in each JVM.
OPERATIONS: Masks = ((r"operations \[[^]]*", "operations [SOME"),)

QUOTAS: Masks = ((r"(request_percentage=[\d.]+), (producer_byte_rate=[\d.]+)", r"\2, \1"),)
MECHANISMS: Masks = ((r"(SCRAM-SHA-512=iterations=\d+), (SCRAM-SHA-256=iterations=\d+)", r"\2, \1"),)

P0 = TopicPartition("secret", 0)
DESCRIBED = [["describedGroups"]]


def denied(call: str, arguments: list[Any], **more: Any) -> Case:
    """Return a case in which Java's Admin is used by a user without rights."""
    return java("without rights", call, arguments, client="alice", **more)


SCENES = [
    Scene(
        "security: ACLs",
        [
            java("one", "createAcls", [[acl()]]),
            java("again", "createAcls", [[acl()]]),
            java(
                "several",
                "createAcls",
                [[acl(kind="GROUP", name="g"), acl(pattern="PREFIXED"), acl(permission="DENY")]],
            ),
            java("everything", "createAcls", [[acl(kind="CLUSTER", name="kafka-cluster", operation="ALL")]]),
            java("other name of the cluster", "createAcls", [[acl(kind="CLUSTER", name="other", operation="ALTER")]]),
            java("operation that topics lack", "createAcls", [[acl(operation="CLUSTER_ACTION")]]),
            java("any pattern", "createAcls", [[acl(pattern="ANY")]]),
            java("match pattern", "createAcls", [[acl(pattern="MATCH")]]),
            java("any operation", "createAcls", [[acl(operation="ANY")]]),
            java("unknown operation", "createAcls", [[acl(operation="UNKNOWN")]]),
            java("unknown type", "createAcls", [[acl(kind="UNKNOWN")]]),
            java("empty name", "createAcls", [[acl(name="")]]),
            java("no principal type", "createAcls", [[acl(who="bob")]]),
            java("empty principal", "createAcls", [[acl(who="")]]),
            java("principal without a name", "createAcls", [[acl(who="User:")]]),
            java("host name", "createAcls", [[acl(host="localhost")]]),
            java("empty host", "createAcls", [[acl(host="")]]),
            java("user", "createAcls", [[acl(kind="USER", name="User:bob", operation="CREATE_TOKENS")]]),
            java("token", "createAcls", [[acl(kind="DELEGATION_TOKEN", name="t", operation="DESCRIBE")]]),
            java("transactional id", "createAcls", [[acl(kind="TRANSACTIONAL_ID", name="x", operation="WRITE")]]),
            java(
                "two phase commit",
                "createAcls",
                [[acl(kind="TRANSACTIONAL_ID", name="x", operation="TWO_PHASE_COMMIT")]],
            ),
            java("nothing", "createAcls", [[]]),
            java("some fail", "createAcls", [[acl(name="ok"), acl(who="bob", name="bad")]]),
            java("all", "describeAcls", [matching()]),
            java("of topics", "describeAcls", [matching("TOPIC")]),
            java("of a name", "describeAcls", [matching("TOPIC", "t", "LITERAL")]),
            java("that match a name", "describeAcls", [matching("TOPIC", "two", "MATCH")]),
            java("prefixed", "describeAcls", [matching(pattern="PREFIXED")]),
            java("of a principal", "describeAcls", [matching(who="User:bob", permission="DENY")]),
            java("of nobody", "describeAcls", [matching(who="User:nobody")]),
            java("unknown type", "describeAcls", [matching("UNKNOWN")]),
            java("of a host", "describeAcls", [matching(host="127.0.0.1")]),
            java("by operation", "describeAcls", [matching(operation="ALL")]),
            java("some", "deleteAcls", [[matching("GROUP"), matching("TOPIC", "nothing")]]),
            java("nothing", "deleteAcls", [[]]),
            java("the same twice", "deleteAcls", [[matching("TOPIC", "ok"), matching("TOPIC", "ok")]]),
            ours("one", "create_acls", OUR_ACL),
            ours("wrong", "create_acls", OUR_ACL._replace(entry=OUR_ACL.entry._replace(principal="carol"))),
            ours("of a principal", "describe_acls", OURS_OF_CAROL),
            ours(
                "of a match",
                "describe_acls",
                AclBindingFilter(ResourcePatternFilter(ResourceType.TOPIC, "ours.1", PatternType.MATCH)),
            ),
            ours(
                "of a principal",
                "delete_acls",
                OURS_OF_CAROL,
                AclBindingFilter(entry_filter=AccessControlEntryFilter("User:x")),
            ),
            tool(
                "add",
                "acls",
                "--add --allow-principal User:dora --operation Read --operation Write --topic tool",
                unordered=True,
            ),
            tool(
                "add for a producer",
                "acls",
                "--add --allow-principal User:dora --producer --topic tool --transactional-id x --idempotent",
                unordered=True,
            ),
            tool(
                "add for a consumer",
                "acls",
                "--add --allow-principal User:dora --consumer --topic tool --group g",
                unordered=True,
            ),
            tool(
                "deny",
                "acls",
                "--add --deny-principal User:dora --deny-host 127.0.0.1 --operation All --cluster",
                unordered=True,
            ),
            tool(
                "prefixed",
                "acls",
                "--add --allow-principal User:dora --operation Describe --topic pre --resource-pattern-type prefixed",
                unordered=True,
            ),
            tool(
                "wrong operation",
                "acls",
                "--add --allow-principal User:dora --operation Fly --topic tool",
                unordered=True,
                masks=OPERATIONS,
            ),
            tool(
                "operation that groups lack",
                "acls",
                "--add --allow-principal User:dora --operation Write --group tool",
                unordered=True,
                masks=OPERATIONS,
            ),
            tool(
                "wrong principal", "acls", "--add --allow-principal dora --operation Read --topic tool", unordered=True
            ),
            tool("no resource", "acls", "--add --allow-principal User:dora --operation Read", unordered=True),
            tool("no principal", "acls", "--add --operation Read --topic tool", unordered=True),
            tool("list", "acls", "--list", unordered=True),
            tool("list a topic", "acls", "--list --topic tool", unordered=True),
            tool("list matches", "acls", "--list --topic pretty --resource-pattern-type match", unordered=True),
            tool("list a principal", "acls", "--list --principal User:dora", unordered=True),
            tool(
                "remove",
                "acls",
                "--remove --force --allow-principal User:dora --operation Read --topic tool",
                unordered=True,
            ),
            tool("remove all of a topic", "acls", "--remove --force --topic tool", unordered=True),
            tool("remove nothing", "acls", "--remove --force --topic none", unordered=True),
            java("of users", "deleteAcls", [[matching(who="User:dora"), matching(who="User:bob")]]),
            java("nothing left", "describeAcls", [matching()]),
        ],
    ),
    Scene(
        "security: quotas",
        [
            java(
                "a user",
                "alterClientQuotas",
                [[quota({"user": "bob"}, producer_byte_rate=1e6, request_percentage=12.5)]],
            ),
            java(
                "user and client",
                "alterClientQuotas",
                [[quota({"user": "bob", "client_id": "app"}, consumer_byte_rate=5e5)]],
            ),
            java("default user", "alterClientQuotas", [[quota({"user": None}, controller_mutation_rate=1000.0)]]),
            java("client", "alterClientQuotas", [[quota({"client_id": "app"}, producer_byte_rate=1e9)]]),
            java("ip", "alterClientQuotas", [[quota({"ip": "10.0.0.1"}, connection_creation_rate=500.0)]]),
            java(
                "ip that is no address",
                "alterClientQuotas",
                [[quota({"ip": "nowhere.invalid"}, connection_creation_rate=5.0)]],
            ),
            java(
                "ip and user",
                "alterClientQuotas",
                [[quota({"ip": "10.0.0.1", "user": "x"}, connection_creation_rate=5.0)]],
            ),
            java("wrong quota of an ip", "alterClientQuotas", [[quota({"ip": "10.0.0.1"}, producer_byte_rate=5.0)]]),
            java("unknown quota", "alterClientQuotas", [[quota({"user": "bob"}, no_such_rate=5.0)]]),
            java("fraction of bytes", "alterClientQuotas", [[quota({"user": "bob"}, producer_byte_rate=5.5)]]),
            java("negative", "alterClientQuotas", [[quota({"user": "bob"}, producer_byte_rate=-5.0)]]),
            java("zero", "alterClientQuotas", [[quota({"user": "bob"}, producer_byte_rate=0.0)]]),
            java("no quota", "alterClientQuotas", [[quota({"user": "bob"})]]),
            java("no entity", "alterClientQuotas", [[quota({}, producer_byte_rate=5.0)]]),
            java("unknown entity", "alterClientQuotas", [[quota({"planet": "mars"}, producer_byte_rate=5.0)]]),
            java("empty user", "alterClientQuotas", [[quota({"user": ""}, producer_byte_rate=5.0)]]),
            java("nothing", "alterClientQuotas", [[]]),
            java(
                "validate only",
                "alterClientQuotas",
                [[quota({"user": "v"}, producer_byte_rate=5.0)]],
                validateOnly=True,
            ),
            java("validate a wrong one", "alterClientQuotas", [[quota({"user": "v"}, wrong=5.0)]], validateOnly=True),
            java("remove what is not set", "alterClientQuotas", [[quota({"user": "nobody"}, producer_byte_rate=None)]]),
            java("all", "describeClientQuotas", [make("all")], ask=["entities"]),
            java(
                "a user",
                "describeClientQuotas",
                [make("contains", [component("ofEntity", "user", "bob")])],
                ask=["entities"],
            ),
            java(
                "only a user",
                "describeClientQuotas",
                [make("containsOnly", [component("ofEntity", "user", "bob")])],
                ask=["entities"],
            ),
            java(
                "default user",
                "describeClientQuotas",
                [make("contains", [component("ofDefaultEntity", "user")])],
                ask=["entities"],
            ),
            java(
                "any user",
                "describeClientQuotas",
                [make("contains", [component("ofEntityType", "user")])],
                ask=["entities"],
            ),
            java(
                "user and client",
                "describeClientQuotas",
                [make("contains", [component("ofEntity", "user", "bob"), component("ofEntityType", "client-id")])],
                ask=["entities"],
            ),
            java(
                "ips", "describeClientQuotas", [make("contains", [component("ofEntityType", "ip")])], ask=["entities"]
            ),
            java(
                "ip and user",
                "describeClientQuotas",
                [make("contains", [component("ofEntityType", "ip"), component("ofEntityType", "user")])],
                ask=["entities"],
            ),
            java(
                "unknown type",
                "describeClientQuotas",
                [make("contains", [component("ofEntityType", "planet")])],
                ask=["entities"],
            ),
            java(
                "a type twice",
                "describeClientQuotas",
                [make("contains", [component("ofEntityType", "user"), component("ofEntity", "user", "x")])],
                ask=["entities"],
            ),
            java(
                "nobody",
                "describeClientQuotas",
                [make("contains", [component("ofEntity", "user", "nobody")])],
                ask=["entities"],
            ),
            java("empty strict filter", "describeClientQuotas", [make("containsOnly", [])], ask=["entities"]),
            ours("a user", "alter_client_quotas", ClientQuotaAlteration(CAROL, {"producer_byte_rate": 5e8})),
            ours(
                "wrong ones",
                "alter_client_quotas",
                ClientQuotaAlteration(CAROL, {"no_such": 5}),
                ClientQuotaAlteration(BOB, {"request_percentage": 50}),
            ),
            ours("all", "describe_client_quotas"),
            ours(
                "default",
                "describe_client_quotas",
                ClientQuotaFilter((ClientQuotaFilterComponent("user", DefaultEntity.DEFAULT),), strict=True),
            ),
            ours("remove", "alter_client_quotas", ClientQuotaAlteration(CAROL, {"producer_byte_rate": None})),
            tool("add", "configs", "--alter --user dora --add-config producer_byte_rate=1000,consumer_byte_rate=2000"),
            tool("add for a client", "configs", "--alter --user dora --client app --add-config request_percentage=50"),
            tool("describe", "configs", "--describe --user dora"),
            tool("describe a client", "configs", "--describe --user dora --client app"),
            tool("describe users", "configs", "--describe --entity-type users", unordered=True, masks=QUOTAS),
            tool("describe clients", "configs", "--describe --entity-type clients", unordered=True),
            tool("defaults", "configs", "--describe --user-defaults"),
            tool("ip", "configs", "--alter --ip 10.0.0.2 --add-config connection_creation_rate=5"),
            tool("wrong ip", "configs", "--alter --ip nowhere.invalid --add-config connection_creation_rate=5"),
            tool("describe ips", "configs", "--describe --entity-type ips", unordered=True),
            tool("unknown quota", "configs", "--alter --user dora --add-config no_such=5"),
            tool("not a number", "configs", "--alter --user dora --add-config producer_byte_rate=much"),
            tool("delete", "configs", "--alter --user dora --delete-config producer_byte_rate,consumer_byte_rate"),
            tool("delete again", "configs", "--alter --user dora --delete-config producer_byte_rate"),
            java(
                "remove",
                "alterClientQuotas",
                [
                    [
                        quota({"user": "bob"}, producer_byte_rate=None, request_percentage=None),
                        quota({"user": "bob", "client_id": "app"}, consumer_byte_rate=None),
                        quota({"user": None}, controller_mutation_rate=None),
                        quota({"client_id": "app"}, producer_byte_rate=None),
                        quota({"ip": "10.0.0.1"}, connection_creation_rate=None),
                        quota({"ip": "10.0.0.2"}, connection_creation_rate=None),
                        quota({"user": "dora", "client_id": "app"}, request_percentage=None),
                    ]
                ],
            ),
            java("nothing left", "describeClientQuotas", [make("all")], ask=["entities"]),
        ],
    ),
    Scene(
        "security: SCRAM credentials",
        [
            altered("one", upsertion("bob")),
            altered("again, with more iterations", upsertion("bob", iterations=8192)),
            altered("other mechanism", upsertion("bob", "SCRAM_SHA_512")),
            altered("too few iterations", upsertion("bob", iterations=10)),
            altered("too many iterations", upsertion("bob", iterations=20_000)),
            altered("empty user", upsertion("")),
            altered("empty password", upsertion("carol", password="")),
            altered("a user twice", upsertion("dora"), upsertion("dora", "SCRAM_SHA_512")),
            altered("a credential twice", upsertion("dora"), deletion("dora")),
            altered("delete what it lacks", deletion("nobody")),
            altered("some fail", upsertion("erin"), upsertion("frank", iterations=1)),
            java("nothing", "alterUserScramCredentials", [[]]),
            java("all", "describeUserScramCredentials", [[]], ask=["all", "users"]),
            java(
                "some",
                "describeUserScramCredentials",
                [["bob", "nobody"]],
                ask=["users", [["description", "bob"]], [["description", "nobody"]]],
            ),
            java("twice", "describeUserScramCredentials", [["bob", "bob"]], ask=["users", [["description", "bob"]]]),
            java("empty name", "describeUserScramCredentials", [[""]], ask=["users", [["description", ""]]]),
            ours(
                "some",
                "alter_user_scram_credentials",
                UserScramCredentialUpsertion("gina", ScramMechanism.SCRAM_SHA_256, "pw"),
                UserScramCredentialDeletion("nobody", ScramMechanism.SCRAM_SHA_512),
            ),
            ours("all", "describe_user_scram_credentials"),
            ours("some", "describe_user_scram_credentials", "gina", "nobody"),
            tool("add", "configs", "--alter --user dora --add-config SCRAM-SHA-256=[iterations=8192,password=pw]"),
            tool("add without iterations", "configs", "--alter --user dora --add-config SCRAM-SHA-512=[password=pw]"),
            tool("describe", "configs", "--describe --user dora", masks=MECHANISMS),
            tool(
                "too few iterations",
                "configs",
                "--alter --user dora --add-config SCRAM-SHA-256=[iterations=8,password=pw]",
            ),
            tool("unknown mechanism", "configs", "--alter --user dora --add-config SCRAM-SHA-1=[password=pw]"),
            tool("delete", "configs", "--alter --user dora --delete-config SCRAM-SHA-256"),
            tool("delete again", "configs", "--alter --user dora --delete-config SCRAM-SHA-256"),
            altered(
                "delete",
                deletion("bob"),
                deletion("gina"),
                deletion("erin"),
                deletion("carol"),
                deletion("dora", "SCRAM_SHA_512"),
            ),
            altered("delete the other", deletion("bob", "SCRAM_SHA_512")),
            java("nothing left", "describeUserScramCredentials", [[]], ask=["all"]),
        ],
    ),
    Scene(
        "security: delegation tokens",
        [
            java("anonymous", "createDelegationToken", []),
            java("anonymous", "describeDelegationToken", []),
            java("anonymous", "renewDelegationToken", ["unknown"]),
            java("anonymous", "expireDelegationToken", ["unknown"]),
            java(
                "for itself",
                "createDelegationToken",
                [],
                client="admin",
                keep=TOKEN,
                masks=TOKENS,
                renewers=[["User", "bob"]],
                maxLifetimeMs=86_400_000,
            ),
            java("for another", "createDelegationToken", [], client="admin", masks=TOKENS, owner=["User", "bob"]),
            java("for another, without rights", "createDelegationToken", [], client="alice", owner=["User", "bob"]),
            java("wrong principal", "createDelegationToken", [], client="admin", renewers=[["Group", "x"]]),
            java("wrong owner", "createDelegationToken", [], client="admin", masks=TOKENS, owner=["Group", "x"]),
            java("negative lifetime", "createDelegationToken", [], client="admin", masks=TOKENS, maxLifetimeMs=-5),
            java("all", "describeDelegationToken", [], client="admin", masks=TOKENS),
            java("of an owner", "describeDelegationToken", [], client="admin", masks=TOKENS, owners=[["User", "bob"]]),
            java("of nobody", "describeDelegationToken", [], client="admin", owners=[["User", "nobody"]]),
            java("without rights", "describeDelegationToken", [], client="alice"),
            java("its own", "renewDelegationToken", [Kept("hmac")], client="admin", renewTimePeriodMs=3_600_000),
            java("without rights", "renewDelegationToken", [Kept("hmac")], client="alice"),
            java("unknown", "renewDelegationToken", ["unknown"], client="admin"),
            java("unknown", "expireDelegationToken", ["unknown"], client="admin"),
            java("without rights", "expireDelegationToken", [Kept("hmac")], client="alice"),
            java("later", "expireDelegationToken", [Kept("hmac")], client="admin", expiryTimePeriodMs=60_000),
            java("now", "expireDelegationToken", [Kept("hmac")], client="admin", expiryTimePeriodMs=-1),
            java("after expiration", "describeDelegationToken", [], client="admin", masks=TOKENS),
            java("gone", "renewDelegationToken", [Kept("hmac")], client="admin"),
            ours("anonymous", "create_delegation_token"),
            ours(
                "for itself",
                "create_delegation_token",
                client="admin",
                keep=("token", lambda token: token),
                masks=TOKENS,
            ),
            ours("one more", "describe_delegation_tokens", client="admin", masks=TOKENS),
            ours("without rights", "renew_delegation_token", Kept("token"), client="alice"),
            ours("its own", "renew_delegation_token", Kept("token"), client="admin"),
            ours("all", "describe_delegation_tokens", client="admin", masks=TOKENS),
            ours("anonymous", "describe_delegation_tokens"),
            ours("now", "expire_delegation_token", Kept("token"), client="admin"),
            ours("one less", "describe_delegation_tokens", client="admin", masks=TOKENS),
            ours("gone", "expire_delegation_token", Kept("token"), client="admin"),
            ours("unknown", "renew_delegation_token", b"unknown", client="admin"),
            tool(
                "create",
                "delegation-tokens",
                "--create --max-life-time-period -1 --owner-principal User:dora",
                client="admin",
                masks=TOKENS,
            ),
            tool(
                "describe", "delegation-tokens", "--describe --owner-principal User:dora", client="admin", masks=TOKENS
            ),
            tool(
                "describe nobody",
                "delegation-tokens",
                "--describe --owner-principal User:nobody",
                client="admin",
                masks=TOKENS,
            ),
            tool(
                "renew unknown",
                "delegation-tokens",
                "--renew --renew-time-period -1 --hmac dW5rbm93bg==",
                client="admin",
            ),
            tool(
                "expire unknown",
                "delegation-tokens",
                "--expire --expiry-time-period -1 --hmac dW5rbm93bg==",
                client="admin",
            ),
            tool("anonymous", "delegation-tokens", "--create --max-life-time-period -1"),
        ],
    ),
    Scene(
        "security: a user without rights",
        [
            java("a topic", "createTopics", [[["secret", 1, 1]]], ask=["all"]),
            denied("createTopics", [[["new", 1, 1]]]),
            denied("deleteTopics", [["secret"]]),
            denied("deleteTopics", [["gone"]])._replace(name="Java deleteTopics: unknown, without rights"),
            denied("describeTopics", [["secret", "gone"]], ask=["topicNameValues"]),
            denied("listTopics", [], ask=["names"]),
            denied("createPartitions", [[["secret", make("increaseTo", 3)]]]),
            denied(
                "deleteRecords", [[[["secret", 0], make("beforeOffset", 0)]]], ask=["lowWatermarks"], timeoutMs=2_000
            ),
            denied(
                "describeCluster",
                [],
                ask=["nodes", "controller", "clusterId", "authorizedOperations"],
                includeAuthorizedOperations=True,
            ),
            denied(
                "describeConfigs",
                [[["TOPIC", "secret"], ["BROKER", "1"], ["GROUP", "g"], ["CLIENT_METRICS", "m"]]],
                ask=["values"],
            ),
            denied(
                "incrementalAlterConfigs",
                [
                    [
                        [["TOPIC", "secret"], [[["flush.ms", "1"], "SET"]]],
                        [["BROKER", "1"], [[["log.retention.ms", "1"], "SET"]]],
                    ]
                ],
                ask=["values"],
            ),
            denied("listConfigResources", [[]], ask=["all"]),
            denied("describeLogDirs", [[1]], ask=["allDescriptions"]),
            denied("createAcls", [[acl()]]),
            denied("describeAcls", [matching()]),
            denied("deleteAcls", [[matching()]]),
            denied("alterClientQuotas", [[quota({"user": "bob"}, producer_byte_rate=5.0)]]),
            denied("describeClientQuotas", [make("all")], ask=["entities"]),
            denied("alterUserScramCredentials", [[upsertion("bob")]]),
            denied("describeUserScramCredentials", [[]], ask=["all"]),
            denied("describeConsumerGroups", [["g"]], ask=DESCRIBED),
            denied("describeShareGroups", [["g"]], ask=DESCRIBED),
            denied("describeClassicGroups", [["g"]], ask=DESCRIBED),
            denied("listGroups", [], ask=["all"]),
            denied("deleteConsumerGroups", [["g"]], ask=["deletedGroups"]),
            denied("listConsumerGroupOffsets", [[["g", new()]]], ask=["all"]),
            denied("alterConsumerGroupOffsets", ["g", [[["secret", 0], [1, ""]]]], ask=["all"]),
            denied("deleteConsumerGroupOffsets", ["g", [["secret", 0]]], ask=["all"]),
            denied("alterShareGroupOffsets", ["g", [[["secret", 0], 1]]], ask=["all"]),
            denied("listShareGroupOffsets", [[["g", new()]]], ask=["all"]),
            denied("deleteShareGroupOffsets", ["g", ["secret"]], ask=["all"]),
            denied("removeMembersFromConsumerGroup", ["g"], made=[[["i1"]]], ask=["all"]),
            denied("listOffsets", [[[["secret", 0], make("latest")]]], ask=["all"]),
            denied("describeProducers", [[["secret", 0]]], ask=["all"]),
            denied("describeTransactions", [["x"]], ask=[[["description", "x"]]]),
            denied("listTransactions", [], ask=["all"]),
            denied("fenceProducers", [["x"]], ask=["all"]),
            denied("abortTransaction", [[["secret", 0], 1, 0, 0]], ask=["all"]),
            denied("electLeaders", ["PREFERRED", [["secret", 0]]], ask=["partitions"]),
            denied("alterPartitionReassignments", [[[["secret", 0], [[1]]]]], ask=["values"]),
            denied("listPartitionReassignments", [None], ask=["reassignments"]),
            denied("alterReplicaLogDirs", [[[["secret", 0, 1], "/nowhere"]]]),
            denied("updateFeatures", [[["group.version", [1, "UPGRADE"]]]]),
            denied("describeFeatures", [], ask=[["featureMetadata", "supportedFeatures", ["get", "group.version"]]]),
            denied("describeMetadataQuorum", []),
            denied("unregisterBroker", [9]),
            ours("without rights", "create_topics", NewTopic("new", 1, 1), client="alice"),
            ours("without rights", "describe_topics", "secret", client="alice"),
            ours("without rights", "delete_topics", "secret", client="alice"),
            ours("without rights", "describe_configs", ConfigResourceType.TOPIC, "secret", client="alice"),
            ours("without rights", "list_offsets", {P0: OffsetTimestamp.LATEST}, client="alice"),
            ours("without rights", "describe_groups", "g", client="alice"),
            ours("without rights", "delete_groups", "g", client="alice"),
            ours("without rights", "alter_group_offsets", "g", {P0: 1}, client="alice"),
            ours("without rights", "create_acls", OUR_ACL, client="alice"),
            ours("without rights", "describe_acls", client="alice"),
            ours("without rights", "describe_client_quotas", client="alice"),
            ours("without rights", "describe_user_scram_credentials", client="alice"),
            ours("without rights", "describe_transactions", "x", client="alice"),
            ours("without rights", "describe_log_dirs", 1, client="alice"),
            tool("list without rights", "topics", "--list", client="alice"),
            tool("create without rights", "topics", "--create --topic new", client="alice"),
            tool("describe without rights", "topics", "--describe --topic secret", client="alice"),
            tool("delete without rights", "topics", "--delete --topic secret", client="alice"),
            tool("without rights", "configs", "--describe --topic secret", client="alice"),
            tool("alter without rights", "configs", "--alter --topic secret --add-config flush.ms=1", client="alice"),
            tool("without rights", "acls", "--list", client="alice"),
            tool("without rights", "consumer-groups", "--describe --group g", client="alice"),
            tool("list without rights", "consumer-groups", "--list", client="alice"),
            tool("without rights", "share-groups", "--describe --group g", client="alice"),
            tool("without rights", "get-offsets", "--topic secret", client="alice"),
            tool("without rights", "log-dirs", "--describe", client="alice"),
            tool("without rights", "transactions", "list", client="alice"),
            tool("without rights", "features", "upgrade --feature group.version=1", client="alice"),
            tool("without rights", "cluster", "unregister --id 9", client="alice"),
            tool("without rights", "metadata-quorum", "describe --status", client="alice"),
        ],
    ),
]
