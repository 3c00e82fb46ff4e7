"""Requests about delegation tokens in order, and the answers of Apache Kafka 4.3, and of 3.9 with ZooKeeper.

The answers come from real brokers; `tests/kafka/test_small_admin_apis.py` and `test_zookeeper_tokens.py` verify them:
that of 4.3 has an authorizer, that of 3.9 has none. `admin` may do everything,
`alice` only what concerns her; None is a client on a listener without a login.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kafkawire.sdk.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kafkawire.sdk.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kafkawire.sdk.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kafkawire.sdk.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["STEPS", "Step", "Tokens", "shown"]

#: The responses to earlier steps that created tokens, keyed by label.
Tokens = Mapping[str, CreateDelegationTokenResponse]

DAY: Final = 24 * 60 * 60

#: Times are rounded to this number of seconds, so that they do not depend on how long a step takes.
_ROUNDED_SECONDS: Final = 60

Renewer = CreateDelegationTokenRequest.CreatableRenewers
Owner = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner


class Step(NamedTuple):
    """A request and its answer.

    Attributes:
        name: the subject of the step.
        user: who sends the request.
        request: returns the request.
        answer: the answer; see `shown`.
        version: the version of the request; None for the newest.
        label: the name for the token that the step creates.
        ours: the reference broker's answer, and that of any broker without an authorizer, if it differs.
        in_cluster: the answer of Kafka 3.9, if it differs from that; times of errors, which are -1, do not count.
    """

    name: str
    user: str | None
    request: Callable[[Tokens], Message]
    answer: tuple[Any, ...]
    version: int | None = None
    label: str = ""
    ours: tuple[Any, ...] | None = None
    in_cluster: tuple[Any, ...] | None = None

    @property
    def expected(self) -> tuple[Any, ...]:
        """The reference broker's answer."""
        return self.answer if self.ours is None else self.ours

    @property
    def expected_in_cluster(self) -> tuple[Any, ...]:
        """The answer of a broker in a cluster with ZooKeeper, Kafka's or ours."""
        code, *others = self.expected if self.in_cluster is None else self.in_cluster
        return code, *(-1 if each == 0 and code != "NONE" else each for each in others)


def shown(response: Any, tokens: Tokens, now_ms: int) -> tuple[Any, ...]:
    """Return what a step compares of a response.

    Times are in seconds from now, or -1 or 0 if they are just that. A token is shown as its label.
    """

    def seconds(time_ms: int) -> int:
        if time_ms <= 0:
            return time_ms
        return round((time_ms - now_ms) / 1000 / _ROUNDED_SECONDS) * _ROUNDED_SECONDS

    labels = {token.token_id: label for label, token in tokens.items()}
    code = ErrorCode(response.error_code)
    match response:
        case CreateDelegationTokenResponse():
            times = response.issue_timestamp_ms, response.expiry_timestamp_ms, response.max_timestamp_ms
            owner = f"{response.principal_type}:{response.principal_name}"
            requester = f"{response.token_requester_principal_type}:{response.token_requester_principal_name}"
            is_complete = len(response.token_id) == 22 and len(response.hmac) == 64
            is_empty = not response.token_id and not response.hmac
            assert is_complete if code is ErrorCode.NONE else is_empty
            return code.name, owner, requester, *map(seconds, times)
        case RenewDelegationTokenResponse() | ExpireDelegationTokenResponse():
            return code.name, seconds(response.expiry_timestamp_ms)
        case DescribeDelegationTokenResponse():
            found = [token for token in response.tokens if token.token_id in labels]
            assert all(token.hmac == tokens[labels[token.token_id]].hmac for token in found)
            return code.name, *sorted(
                (
                    labels[token.token_id],
                    f"{token.principal_type}:{token.principal_name}",
                    f"{token.token_requester_principal_type}:{token.token_requester_principal_name}",
                    *(f"{each.principal_type}:{each.principal_name}" for each in token.renewers),
                    seconds(token.expiry_timestamp),
                    seconds(token.max_timestamp),
                )
                for token in found
            )
    raise TypeError(type(response).__name__)


def _create(**fields: Any) -> Callable[[Tokens], Message]:
    return lambda tokens: CreateDelegationTokenRequest(**{"max_lifetime_ms": -1, **fields})


def _renew(label: str, seconds: int) -> Callable[[Tokens], Message]:
    return lambda tokens: RenewDelegationTokenRequest(_hmac(tokens, label), _milliseconds(seconds))


def _expire(label: str, seconds: int) -> Callable[[Tokens], Message]:
    return lambda tokens: ExpireDelegationTokenRequest(_hmac(tokens, label), _milliseconds(seconds))


def _describe(owners: list[str] | None) -> Callable[[Tokens], Message]:
    named = None if owners is None else [Owner("User", owner) for owner in owners]
    return lambda tokens: DescribeDelegationTokenRequest(named)


def _hmac(tokens: Tokens, label: str) -> bytes:
    return bytes(tokens[label].hmac) if label else b"unknown"


def _milliseconds(seconds: int) -> int:
    return seconds if seconds < 0 else seconds * 1000


ADMIN, ALICE, NOBODY = "User:admin", "User:alice", "User:ANONYMOUS"

STEPS: Final = (
    Step(
        "create without a login",
        None,
        _create(),
        ("DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", NOBODY, NOBODY, -1, -1, -1),
    ),
    Step(
        "create for another owner without a login",
        None,
        _create(owner_principal_type="User", owner_principal_name="bob", renewers=[Renewer("Group", "g")]),
        ("DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", "User:bob", NOBODY, -1, -1, -1),
    ),
    Step("renew without a login", None, _renew("", -1), ("DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", -1)),
    Step("expire without a login", None, _expire("", -1), ("DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", -1)),
    Step("describe without a login", None, _describe(None), ("DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",)),
    Step(
        "a renewer that is not a user",
        "alice",
        _create(renewers=[Renewer("User", "bob"), Renewer("Group", "g")]),
        ("INVALID_PRINCIPAL_TYPE", ALICE, ALICE, -1, -1, -1),
    ),
    Step(
        "an owner without a type",
        "alice",
        _create(owner_principal_type=None, owner_principal_name="bob"),
        ("UNKNOWN_SERVER_ERROR", NOBODY, NOBODY, -1, -1, -1),
    ),
    Step("create", "admin", _create(), ("NONE", ADMIN, ADMIN, 0, DAY, 7 * DAY), label="own"),
    Step(
        "create with an owner's type alone",
        "admin",
        _create(owner_principal_type="Group", owner_principal_name=None, max_lifetime_ms=3_600_000),
        ("NONE", ADMIN, ADMIN, 0, 3600, 3600),
        label="short",
    ),
    Step(
        "create with a long lifetime in an old version",
        "admin",
        _create(max_lifetime_ms=2**63 - 1, renewers=[Renewer("User", "alice"), Renewer("User", "")]),
        ("NONE", ADMIN, ":", 0, DAY, 7 * DAY),
        version=1,
        label="long",
    ),
    Step(
        "create for another owner",
        "admin",
        _create(owner_principal_type="User", owner_principal_name="alice", max_lifetime_ms=0),
        ("NONE", ALICE, ADMIN, 0, DAY, 7 * DAY),
        label="alices",
    ),
    Step("renew an unknown token", "alice", _renew("", -1), ("DELEGATION_TOKEN_NOT_FOUND", 0)),
    Step("expire an unknown token", "alice", _expire("", -1), ("DELEGATION_TOKEN_NOT_FOUND", 0)),
    Step("renew another's token", "alice", _renew("own", -1), ("DELEGATION_TOKEN_OWNER_MISMATCH", 0)),
    Step("expire another's token", "alice", _expire("own", -1), ("DELEGATION_TOKEN_OWNER_MISMATCH", 0)),
    Step("renew a token as its requester alone", "admin", _renew("alices", -1), ("DELEGATION_TOKEN_OWNER_MISMATCH", 0)),
    Step("renew a token as a renewer", "alice", _renew("long", 7200), ("NONE", 7200)),
    Step("create another one", "admin", _create(), ("NONE", ADMIN, ADMIN, 0, DAY, 7 * DAY), label="brief"),
    Step("renew for no time", "admin", _renew("brief", 0), ("NONE", DAY), in_cluster=("NONE", 0)),
    Step("remove the brief one", "admin", _expire("brief", -1), ("NONE", 0)),
    Step(
        "renew for longer than the default time",
        "admin",
        _renew("own", 2 * DAY),
        ("NONE", DAY),
        in_cluster=("NONE", 2 * DAY),
    ),
    Step("renew for the default time", "admin", _renew("own", -1), ("NONE", DAY)),
    Step("renew beyond the maximum lifetime", "admin", _renew("short", DAY), ("NONE", 3600)),
    Step("expire later", "alice", _expire("alices", 3 * DAY), ("NONE", 3 * DAY)),
    Step("expire beyond the maximum lifetime", "alice", _expire("alices", 8 * DAY), ("NONE", 7 * DAY)),
    Step(
        "describe all that alice may see",
        "alice",
        _describe(None),
        (
            "NONE",
            ("alices", ALICE, ADMIN, 7 * DAY, 7 * DAY),
            ("long", ADMIN, ADMIN, ALICE, "User:", 7200, 7 * DAY),
        ),
        # Without an authorizer, everyone may see everything, as in Kafka.
        ours=(
            "NONE",
            ("alices", ALICE, ADMIN, 7 * DAY, 7 * DAY),
            ("long", ADMIN, ADMIN, ALICE, "User:", 7200, 7 * DAY),
            ("own", ADMIN, ADMIN, DAY, 7 * DAY),
            ("short", ADMIN, ADMIN, 3600, 3600),
        ),
    ),
    Step("describe those of nobody", "admin", _describe([]), ("NONE",)),
    Step(
        "describe those of alice",
        "admin",
        _describe(["alice"]),
        (
            "NONE",
            ("alices", ALICE, ADMIN, 7 * DAY, 7 * DAY),
            ("long", ADMIN, ADMIN, ALICE, "User:", 7200, 7 * DAY),
        ),
    ),
    Step(
        "describe those that bob and admin own",
        "admin",
        _describe(["bob", "admin"]),
        (
            "NONE",
            ("alices", ALICE, ADMIN, 7 * DAY, 7 * DAY),
            ("long", ADMIN, ADMIN, ALICE, "User:", 7200, 7 * DAY),
            ("own", ADMIN, ADMIN, DAY, 7 * DAY),
            ("short", ADMIN, ADMIN, 3600, 3600),
        ),
    ),
    Step(
        "describe in an old version",
        "admin",
        _describe(["alice"]),
        ("NONE", ("alices", ALICE, ":", 7 * DAY, 7 * DAY), ("long", ADMIN, ":", ALICE, "User:", 7200, 7 * DAY)),
        version=2,
    ),
    Step("expire now", "admin", _expire("short", 0), ("NONE", 0)),
    # Kafka 4.3 learns a moment later that the token has expired; until then, it says that alice may not renew it. The
    # request below, which would renew the token until then, has to wait.
    Step(
        "renew another's expired token",
        "alice",
        _renew("short", -1),
        ("DELEGATION_TOKEN_EXPIRED", 0),
        in_cluster=("DELEGATION_TOKEN_OWNER_MISMATCH", -1),
    ),
    Step("renew an expired token", "admin", _renew("short", -1), ("DELEGATION_TOKEN_EXPIRED", 0)),
    Step("expire an expired token", "admin", _expire("short", 60), ("DELEGATION_TOKEN_EXPIRED", 0)),
    Step("expire another's expired token", "alice", _expire("short", 60), ("DELEGATION_TOKEN_OWNER_MISMATCH", 0)),
    Step("remove an expired token", "admin", _expire("short", -1), ("NONE", 0)),
    Step("remove a token", "alice", _expire("alices", -1), ("NONE", 0)),
    Step("remove a removed token", "alice", _expire("alices", -1), ("DELEGATION_TOKEN_NOT_FOUND", 0)),
    Step("remove as a renewer", "alice", _expire("long", -1), ("NONE", 0)),
    Step("remove the last one", "admin", _expire("own", -1), ("NONE", 0)),
    Step("describe nothing", "admin", _describe(None), ("NONE",)),
)
