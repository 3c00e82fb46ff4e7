"""Requests about quotas and SCRAM credentials in order, and Apache Kafka 4.3's answers.

The answers come from a real broker; `tests/kafka/test_quotas.py` verifies them. The order of results is that of Java's
hash tables in Kafka, and is not compared.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kafkawire.sdk.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from kafkawire.sdk.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kafkawire.sdk.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kafkawire.sdk.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import QuotaMatchType, ScramMechanism
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["IN_CLUSTER", "STEPS", "Step", "comparable", "quota_request"]

INVALID, NONE = ErrorCode.INVALID_REQUEST, ErrorCode.NONE
EXACT, DEFAULT, ANY = QuotaMatchType.EXACT, QuotaMatchType.DEFAULT, QuotaMatchType.SPECIFIED
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512

#: The names of an entity by type; None is the default.
Entity = dict[str, str | None]

#: An entity as it is compared.
_Names = frozenset[tuple[str, str | None]]


class Step(NamedTuple):
    """A request and its answer.

    Attributes:
        name: what the step shows.
        request: the request.
        answer: the answer in the form of `comparable`.
    """

    name: str
    request: Message
    answer: Any


def comparable(response: Any) -> Any:
    """Return the results in a response, keyed by entity or by user; or its code and text if it failed as a whole."""
    if getattr(response, "error_code", NONE) != NONE:
        return response.error_code, response.error_message
    match type(response).__name__:
        case "AlterClientQuotasResponse":
            return {_names(each.entity): (each.error_code, each.error_message) for each in response.entries}
        case "DescribeClientQuotasResponse":
            return response.error_message, {
                _names(each.entity): {value.key: value.value for value in each.values} for each in response.entries
            }
        case "AlterUserScramCredentialsResponse":
            return {each.user: (each.error_code, each.error_message) for each in response.results}
        case _:
            return response.error_message, {
                each.user: (each.error_code, each.error_message, _infos(each.credential_infos))
                for each in response.results
            }


def _names(entity: Any) -> _Names:
    return frozenset((each.entity_type, each.entity_name) for each in entity)


def _infos(infos: Any) -> list[tuple[int, int]]:
    return sorted((each.mechanism, each.iterations) for each in infos)


def _of(**names: str | None) -> Entity:
    return {kind.replace("_", "-"): name for kind, name in names.items()}


def _alter(
    name: str, *entries: tuple[Entity, dict[str, float | None], int, str | None], validate: bool = False
) -> Step:
    """Return a step with the changes to entities, and the code and text for each."""
    kind = AlterClientQuotasRequest
    asked = [
        kind.EntryData(
            [kind.EntityData(*each) for each in entity.items()],
            [kind.OpData(key, value or 0, value is None) for key, value in ops.items()],
        )
        for entity, ops, _, _ in entries
    ]
    answer = {frozenset(entity.items()): (code, text) for entity, _, code, text in entries}
    return Step(name, kind(asked, validate), answer)


def _describe(name: str, components: list[tuple[str, int, str | None]], answer: Any, *, strict: bool = False) -> Step:
    """Return a step; the answer is a list of entities with their quotas, or a code and a text."""
    kind = DescribeClientQuotasRequest
    request = kind([kind.ComponentData(*each) for each in components], strict)
    if isinstance(answer, list):
        answer = "", {frozenset(entity.items()): quotas for entity, quotas in answer}
    return Step(name, request, answer)


def _scram(
    name: str, deletions: list[tuple[str, int]], upsertions: list[tuple[str, int, int]], answer: dict[str, Any]
) -> Step:
    kind = AlterUserScramCredentialsRequest
    return Step(
        name,
        kind(
            [kind.ScramCredentialDeletion(*each) for each in deletions],
            [kind.ScramCredentialUpsertion(*each, b"salt", b"salted password") for each in upsertions],
        ),
        answer,
    )


def _described(name: str, users: list[str] | None, answer: Any) -> Step:
    kind = DescribeUserScramCredentialsRequest
    return Step(name, kind(None if users is None else [kind.UserName(user) for user in users]), ("", answer))


ALICE, APP = _of(user="alice"), _of(client_id="app")
ALICES_APP, ALL_USERS = _of(user="alice", client_id="app"), _of(user=None)
HERE = _of(ip="127.0.0.1")
PRODUCE, FETCH, REQUEST = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
MUTATION, CONNECTION = "controller_mutation_rate", "connection_creation_rate"
BOTH = "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
TOO_LARGE = "too large for an INT."
NOT_TWICE = "A user credential cannot be altered twice in the same request"
MISSING = "Attempt to describe a user credential that does not exist: "


def _invalid(name: str, entity: Entity, ops: dict[str, float | None], text: str) -> Step:
    return _alter(name, (entity, ops, INVALID, text))


STEPS: tuple[Step, ...] = (
    _describe("nothing", [], []),
    _alter("set", (ALICE, {PRODUCE: 1024.0, REQUEST: 12.5}, NONE, None)),
    _alter(
        "set several",
        (APP, {FETCH: 2048.0}, NONE, None),
        (ALICES_APP, {MUTATION: 0.5}, NONE, None),
        (ALL_USERS, {PRODUCE: 4096.0}, NONE, None),
        (HERE, {CONNECTION: 100.0}, NONE, None),
        (_of(user="a b/c*%", client_id=None), {FETCH: 1.0}, NONE, None),
    ),
    _alter("only validated", (ALICE, {PRODUCE: 1.0}, NONE, None), validate=True),
    _describe(
        "all",
        [],
        [
            (ALICE, {PRODUCE: 1024.0, REQUEST: 12.5}),
            (APP, {FETCH: 2048.0}),
            (ALICES_APP, {MUTATION: 0.5}),
            (ALL_USERS, {PRODUCE: 4096.0}),
            (HERE, {CONNECTION: 100.0}),
            (_of(user="a b/c*%", client_id=None), {FETCH: 1.0}),
        ],
    ),
    _describe("strict, without components", [], [], strict=True),
    _describe(
        "a user and the user's client ids",
        [("user", EXACT, "alice")],
        [(ALICE, {PRODUCE: 1024.0, REQUEST: 12.5}), (ALICES_APP, {MUTATION: 0.5})],
    ),
    _describe("only a user", [("user", EXACT, "alice")], [(ALICE, {PRODUCE: 1024.0, REQUEST: 12.5})], strict=True),
    _describe("the default user", [("user", DEFAULT, None)], [(ALL_USERS, {PRODUCE: 4096.0})]),
    _describe(
        "any user",
        [("user", ANY, None)],
        [(ALICE, {PRODUCE: 1024.0, REQUEST: 12.5}), (ALL_USERS, {PRODUCE: 4096.0})],
        strict=True,
    ),
    _describe(
        "any user and client id",
        [("user", ANY, None), ("client-id", ANY, None)],
        [(ALICES_APP, {MUTATION: 0.5}), (_of(user="a b/c*%", client_id=None), {FETCH: 1.0})],
    ),
    _describe("an address", [("ip", EXACT, "127.0.0.1")], [(HERE, {CONNECTION: 100.0})]),
    _describe("a user that is not there", [("user", EXACT, "bob")], []),
    _describe("no type", [("", EXACT, "a")], (INVALID, "Invalid empty entity type.")),
    _describe(
        "an unknown type", [("host", EXACT, "a")], (ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type host")
    ),
    _describe(
        "a type twice",
        [("user", EXACT, "a"), ("user", ANY, None)],
        (INVALID, "Entity type user cannot appear more than once in the filter."),
    ),
    _describe(
        "exact without a name",
        [("user", EXACT, None)],
        (INVALID, "Request specified MATCH_TYPE_EXACT, but set match string to null."),
    ),
    _describe(
        "default with a name",
        [("user", DEFAULT, "a")],
        (INVALID, "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."),
    ),
    _describe(
        "any with a name",
        [("user", ANY, "a")],
        (INVALID, "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."),
    ),
    _describe("an unknown match", [("user", 3, None)], (INVALID, "Unknown match type 3")),
    _describe(
        "an address and a user",
        [("ip", ANY, None), ("user", ANY, None)],
        (
            INVALID,
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component.",
        ),
    ),
    _invalid("no entity", {}, {PRODUCE: 1.0}, "Invalid empty client quota entity"),
    _invalid("an unknown entity", {"host": "a"}, {PRODUCE: 1.0}, "Unhandled client quota entity type: host"),
    _invalid("an empty user", _of(user=""), {PRODUCE: 1.0}, "Empty user not supported"),
    _invalid("an empty client id", _of(client_id=""), {PRODUCE: 1.0}, "Empty client-id not supported"),
    _invalid("a user at an address", _of(user="a", ip="127.0.0.1"), {CONNECTION: 1.0}, BOTH),
    _invalid(
        "no address",
        _of(ip="no.such.host.invalid"),
        {CONNECTION: 1.0},
        "no.such.host.invalid is not a valid IP or resolvable host.",
    ),
    _invalid("an unknown quota", ALICE, {"rate": 1.0}, "Invalid configuration key rate"),
    _invalid("a quota of addresses", ALICE, {CONNECTION: 1.0}, f"Invalid configuration key {CONNECTION}"),
    _invalid("a quota of clients", HERE, {PRODUCE: 1.0}, f"Invalid configuration key {PRODUCE}"),
    _invalid("a credential", ALICE, {"SCRAM-SHA-256": 1.0}, "Invalid configuration key SCRAM-SHA-256"),
    _invalid("zero", ALICE, {PRODUCE: 0.0}, f"Quota {PRODUCE} must be greater than 0"),
    _invalid("negative", ALICE, {REQUEST: -1.0}, f"Quota {REQUEST} must be greater than 0"),
    _invalid("a fraction", ALICE, {FETCH: 1.5}, f"{FETCH} cannot be a fractional value."),
    _invalid("too large", ALICE, {FETCH: 1e19}, f"Proposed value for {FETCH} is too large for a LONG."),
    _invalid(
        "too large for int", HERE, {CONNECTION: 2.0**31}, f"Proposed value for {CONNECTION} is too large for an INT."
    ),
    _alter("remove what is unknown", (ALICE, {"rate": None}, NONE, None)),
    _alter("remove", (ALICE, {PRODUCE: None, REQUEST: 50.0}, NONE, None)),
    _alter("remove all of an entity", (APP, {FETCH: None}, NONE, None), (HERE, {CONNECTION: None}, NONE, None)),
    _describe(
        "what is left",
        [("user", EXACT, "alice")],
        [(ALICE, {REQUEST: 50.0}), (ALICES_APP, {MUTATION: 0.5})],
    ),
    _describe("removed entities are gone", [("client-id", EXACT, "app")], [(ALICES_APP, {MUTATION: 0.5})]),
    Step(
        "an entity twice",
        AlterClientQuotasRequest(
            [
                AlterClientQuotasRequest.EntryData(
                    [AlterClientQuotasRequest.EntityData("user", "alice")],
                    [AlterClientQuotasRequest.OpData(PRODUCE, value, False)],
                )
                for value in (10.0, 20.0)
            ]
        ),
        {
            frozenset(ALICE.items()): (
                INVALID,
                "Ignoring duplicate entity ClientQuotaEntity(entries={user=alice})",
            )
        },
    ),
    _describe(
        "the first change was made", [("user", EXACT, "alice")], [(ALICE, {REQUEST: 50.0, PRODUCE: 10.0})], strict=True
    ),
    Step(
        "a quota twice",
        AlterClientQuotasRequest(
            [
                AlterClientQuotasRequest.EntryData(
                    [
                        AlterClientQuotasRequest.EntityData("user", "alice"),
                        AlterClientQuotasRequest.EntityData("client-id", None),
                    ],
                    [AlterClientQuotasRequest.OpData(PRODUCE, value, False) for value in (10.0, 20.0)],
                )
            ]
        ),
        {
            frozenset(_of(user="alice", client_id=None).items()): (
                INVALID,
                "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=null, user=alice})",
            )
        },
    ),
    _described("no credentials", None, {}),
    _described(
        "a user without credentials", ["alice"], {"alice": (ErrorCode.RESOURCE_NOT_FOUND, MISSING + "alice", [])}
    ),
    _scram(
        "set credentials",
        [],
        [("alice", SHA_256, 4096), ("bob", SHA_512, 16384)],
        {"alice": (NONE, None), "bob": (NONE, None)},
    ),
    _scram("another mechanism", [], [("alice", SHA_512, 8192)], {"alice": (NONE, None)}),
    _described(
        "all credentials",
        None,
        {"alice": (NONE, "", [(SHA_256, 4096), (SHA_512, 8192)]), "bob": (NONE, "", [(SHA_512, 16384)])},
    ),
    _described(
        "some credentials",
        ["bob", "carol", "carol", "", "bob/x"],
        {
            "bob": (NONE, "", [(SHA_512, 16384)]),
            "carol": (
                ErrorCode.DUPLICATE_RESOURCE,
                "Cannot describe SCRAM credentials for the same user twice in a single request: carol",
                [],
            ),
            "": (ErrorCode.RESOURCE_NOT_FOUND, MISSING, []),
            "bob/x": (ErrorCode.RESOURCE_NOT_FOUND, MISSING + "bob/x", []),
        },
    ),
    _scram(
        "refused",
        [("", SHA_256), ("carol", SHA_256), ("dave", 7), ("erin", SHA_256), ("erin", SHA_512)],
        [
            ("frank", SHA_256, 4095),
            ("grace", SHA_256, 16385),
            ("heidi", 0, 4096),
            ("ivan", SHA_256, 4096),
            ("ivan", SHA_512, 4096),
            ("judy", SHA_256, 4096),
        ],
        {
            "": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
            "carol": (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"),
            "dave": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
            "erin": (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"),
            "frank": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
            "grace": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
            "heidi": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
            "ivan": (ErrorCode.DUPLICATE_RESOURCE, NOT_TWICE),
            "judy": (NONE, None),
        },
    ),
    _scram(
        "a user twice",
        [("alice", SHA_256), ("alice", SHA_512)],
        [],
        {"alice": (ErrorCode.DUPLICATE_RESOURCE, NOT_TWICE)},
    ),
    _scram("delete", [("alice", SHA_256), ("bob", SHA_512)], [], {"alice": (NONE, None), "bob": (NONE, None)}),
    _described(
        "credentials that are left",
        ["alice", "bob"],
        {"alice": (NONE, "", [(SHA_512, 8192)]), "bob": (ErrorCode.RESOURCE_NOT_FOUND, MISSING + "bob", [])},
    ),
    _describe(
        "credentials are not quotas",
        [("user", EXACT, "alice")],
        [(ALICE, {REQUEST: 50.0, PRODUCE: 10.0})],
        strict=True,
    ),
    _scram(
        "delete the rest", [("alice", SHA_512), ("judy", SHA_256)], [], {"alice": (NONE, None), "judy": (NONE, None)}
    ),
    _alter(
        "remove the rest",
        (ALICE, {REQUEST: None, PRODUCE: None}, NONE, None),
        (ALICES_APP, {MUTATION: None}, NONE, None),
        (ALL_USERS, {PRODUCE: None}, NONE, None),
        (_of(user="a b/c*%", client_id=None), {FETCH: None}, NONE, None),
    ),
    _describe("nothing is left", [], []),
)

_UNKNOWN = ErrorCode.UNKNOWN_SERVER_ERROR
_USER, _BOTH, _IP = _of(user="alice"), _of(user="alice", client_id=None), _of(ip="10.1.2.3")


def quota_request(
    entity: Entity, ops: dict[str, float | None], *, validate_only: bool = False
) -> AlterClientQuotasRequest:
    """Return a request for changes to one entity."""
    kind = AlterClientQuotasRequest
    named = [kind.EntityData(*each) for each in entity.items()]
    values = [kind.OpData(key, value or 0, value is None) for key, value in ops.items()]
    return kind([kind.EntryData(named, values)], validate_only)


#: In a cluster: an entity, its changes, and the code, text and stored values that Kafka 3.9 gives.
IN_CLUSTER: list[tuple[Entity, dict[str, float | None], int, str | None, dict[str, str]]] = [
    (_USER, {"producer_byte_rate": 0.0}, NONE, None, {"producer_byte_rate": "0"}),
    (_USER, {"producer_byte_rate": -5.0}, INVALID, "Configuration producer_byte_rate must be a LONG value", {}),
    (_USER, {"producer_byte_rate": 1e19}, INVALID, "Configuration producer_byte_rate must be a LONG value", {}),
    (_USER, {"producer_byte_rate": 2.0**63}, NONE, None, {"producer_byte_rate": "9223372036854775807"}),
    (_USER, {"producer_byte_rate": 1.5}, INVALID, "Configuration producer_byte_rate must be a LONG value", {}),
    (_BOTH, {"request_percentage": 12.5}, NONE, None, {"request_percentage": "12.5"}),
    (_BOTH, {"request_percentage": 2e7}, NONE, None, {"request_percentage": "2.0E7"}),
    (_BOTH, {"request_percentage": 1.25e-5}, NONE, None, {"request_percentage": "1.25E-5"}),
    (_BOTH, {"request_percentage": -123456789.5}, NONE, None, {"request_percentage": "-1.234567895E8"}),
    (_BOTH, {"request_percentage": float("inf")}, NONE, None, {"request_percentage": "Infinity"}),
    (_BOTH, {"request_percentage": float("nan")}, NONE, None, {"request_percentage": "NaN"}),
    (_USER, {"rate": 1.0}, INVALID, "Invalid configuration key rate", {}),
    (_USER, {"rate": None}, NONE, None, {}),
    (_USER, {"SCRAM-SHA-256": 1.0}, _UNKNOWN, None, {}),
    (_IP, {"connection_creation_rate": 7.0}, NONE, None, {"connection_creation_rate": "7"}),
    (
        _IP,
        {"connection_creation_rate": -1.0},
        INVALID,
        "Configuration connection_creation_rate must be a INT value",
        {},
    ),
    (
        {"ip": "::1"},
        {CONNECTION: 7.0},
        INVALID,
        "%3A%3A1 is not a valid IP or resolvable host.",
        {},
    ),
    (
        {"ip": "a/b"},
        {"connection_creation_rate": 7.0},
        INVALID,
        "a%2Fb is not a valid IP or resolvable host.",
        {},
    ),
    (
        {"ip": None, "user": "alice"},
        {"connection_creation_rate": 7.0},
        INVALID,
        "Invalid quota entity combination, IP entity should not be used with user/client ID entity.",
        {},
    ),
    ({}, {}, INVALID, "Invalid empty client quota entity", {}),
    ({"host": "a"}, {}, INVALID, "Unhandled client quota entity type: host", {}),
    ({"client-id": ""}, {}, INVALID, "Empty client-id not supported", {}),
]
