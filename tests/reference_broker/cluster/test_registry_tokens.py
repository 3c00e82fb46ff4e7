"""A broker stores delegation tokens as Apache Kafka does, and learns of other brokers' changes whatever happens.

Method: use the embedded registry, a second session that plays another broker, and a clock that the test moves. The
JSON is what Kafka 3.9 writes.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.cluster.change_notifications import EXPIRATION_MS, RETRY_MS
from kafkawire.reference_broker.cluster.embedded_registry import Fault, RegistryCall
from kafkawire.reference_broker.cluster.registry_tokens import RegistryTokens
from kafkawire.reference_broker.metadata.principal import USER, KafkaPrincipal
from kafkawire.reference_broker.metadata.token_store import TokenInformation, stored_token
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import DELEGATION_TOKEN
from kafkawire.sdk.registry.registry import (
    Create,
    CreateMode,
    Delete,
    GetChildren,
    GetData,
    RegistryCode,
    SetData,
)
from kafkawire.sdk.registry.steps import ATTEMPTS_MAX, BATCH_MAX
from tests.reference_broker.cluster.cluster_nodes import ClusterBench, fault_at

TOKENS = "/delegation_token/tokens"
CHANGES = "/delegation_token/token_changes"
CHANGE = f"{CHANGES}/token_change_"

ALICE = KafkaPrincipal(USER, "alice")


def token(token_id: str = "a", expires_ms: int = 20) -> TokenInformation:
    return TokenInformation(token_id, ALICE, ALICE, (), issued_ms=1, max_ms=30, expires_ms=expires_ms)


class Bench(ClusterBench):
    """One broker.

    Attributes:
        ready: the outcomes reported by `start`.
        told: the ids of tokens that have changed.
        done: the outcomes of changes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.timers = Timers()
        self.tokens = RegistryTokens(self.one, self.timers, lambda: self.now_ms)
        self.told: list[str] = []
        self.tokens.on_change = self.told.append
        self.ready: list[Exception | None] = []
        self.done: list[BrokerError | None] = []

    def start(self) -> None:
        self.tokens.start(self.ready.append)
        self.owner.run_all()

    def change(self, token_id: str, after: TokenInformation | None) -> None:
        """Have the broker change a token."""
        self.tokens.change(token_id, lambda before: after, self.done.append)
        self.owner.run_all()

    def store(self, each: TokenInformation) -> None:
        """Have the other broker store a token, without a notification."""
        self.put(f"{TOKENS}/{each.token_id}", DELEGATION_TOKEN.encode(stored_token(each)))

    def notify(self, content: bytes) -> None:
        """Have the other broker create a notification."""
        self.write(Create(CHANGE, content, CreateMode.PERSISTENT_SEQUENTIAL))
        self.owner.run_all()

    def announce(self, each: TokenInformation) -> None:
        """Have the other broker store a token, and tell the others."""
        self.store(each)
        self.notify(each.token_id.encode())

    def advance(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.timers.fire(self.now_ms)
        self.owner.run_all()

    @property
    def known(self) -> dict[str, int]:
        """When each known token expires."""
        return {token_id: each.expires_ms for token_id, each in self.tokens.tokens.items()}


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_the_nodes_are_created_at_the_start(bench: Bench) -> None:
    bench.start()
    assert bench.ready == [None]
    assert bench.data(CHANGES) is not None
    assert bench.data(TOKENS) is not None


def test_what_a_broker_writes(bench: Bench) -> None:
    bench.start()
    writes = bench.writes()
    renewers = (KafkaPrincipal(USER, "carol"), KafkaPrincipal(USER, "d:e"))
    made = TokenInformation("a-_B", ALICE, KafkaPrincipal(USER, "bob"), renewers, issued_ms=1, max_ms=30, expires_ms=20)
    bench.change("a-_B", made)
    content = (
        b'{"issueTimestamp":1,"renewers":["User%3Acarol","User%3Ad%3Ae"],"tokenRequester":"User%3Abob",'
        b'"tokenId":"a-_B","owner":"User%3Aalice","expiryTimestamp":20,"maxTimestamp":30,"version":3}'
    )
    assert writes == [
        Create(f"{TOKENS}/a-_B", content),
        Create(CHANGE, b"a-_B", CreateMode.PERSISTENT_SEQUENTIAL),
    ]
    writes.clear()
    bench.change("a-_B", made._replace(expires_ms=21))
    assert writes == [
        SetData(f"{TOKENS}/a-_B", content.replace(b":20", b":21"), 0),
        Create(CHANGE, b"a-_B", CreateMode.PERSISTENT_SEQUENTIAL),
    ]
    writes.clear()
    bench.change("a-_B", None)
    assert writes == [Delete(f"{TOKENS}/a-_B", 1), Create(CHANGE, b"a-_B", CreateMode.PERSISTENT_SEQUENTIAL)]
    assert (bench.done, bench.told, bench.known) == ([None] * 3, ["a-_B"] * 3, {})


def test_only_brokers_may_read_tokens_if_acls_are_set(bench: Bench) -> None:
    bench.tokens = RegistryTokens(
        bench.registry([("digest", "broker:password")]), bench.timers, lambda: bench.now_ms, is_secure=True
    )
    bench.owner.run_all()
    bench.start()
    bench.change("a", token())
    (refused,) = bench.write(GetData(f"{TOKENS}/a"))
    assert getattr(refused, "code", None) is RegistryCode.NO_AUTH
    (open_,) = bench.write(GetData(CHANGES))
    assert getattr(open_, "code", None) is None


def test_all_tokens_are_read_at_the_start(bench: Bench) -> None:
    bench.start()
    for number in range(BATCH_MAX + 1):
        bench.store(token(f"t{number}", number))
    bench.tokens = RegistryTokens(bench.one, bench.timers, lambda: bench.now_ms)
    bench.start()
    assert bench.ready == [None, None]
    assert bench.known == {f"t{number}": number for number in range(BATCH_MAX + 1)}


def test_changes_of_other_brokers(bench: Bench) -> None:
    bench.start()
    bench.announce(token("a"))
    bench.announce(token("b", 7))
    assert (bench.known, bench.told) == ({"a": 20, "b": 7}, ["a", "b"])
    bench.announce(token("a", 21))
    assert bench.known == {"a": 21, "b": 7}
    bench.write(Delete(f"{TOKENS}/b"))
    bench.notify(b"b")
    assert (bench.known, bench.told) == ({"a": 21}, ["a", "b", "a", "b"])


def test_only_what_a_notification_names_is_read(bench: Bench) -> None:
    bench.start()
    bench.store(token("b"))
    bench.announce(token("a"))
    assert bench.known == {"a": 20}


@pytest.mark.parametrize("content", [b"", b"\xff", b"none", b"..", b"x/y", b"\0"], ids=repr)
def test_a_notification_about_something_else(bench: Bench, content: bytes) -> None:
    bench.start()
    bench.notify(content)
    assert bench.told == []
    bench.announce(token("a"))
    assert bench.known == {"a": 20}


def test_children_of_other_names_are_no_notifications(bench: Bench) -> None:
    bench.start()
    bench.write(Create(f"{CHANGES}/token_change_1"), Create(f"{CHANGES}/other"))
    bench.owner.run_all()
    bench.announce(token("a"))
    assert bench.known == {"a": 20}


@pytest.mark.parametrize("content", [b"", b"{", b'{"version":4}', b'{"version":1,"owner":"alice"}'])
def test_a_damaged_token_is_treated_as_missing(bench: Bench, content: bytes) -> None:
    bench.start()
    bench.announce(token("a"))
    bench.put(f"{TOKENS}/a", content)
    bench.notify(b"a")
    assert bench.known == {}
    bench.announce(token("b"))
    assert bench.known == {"b": 20}


def test_a_gap_has_everything_read(bench: Bench) -> None:
    bench.start()
    bench.announce(token("a"))
    bench.one.disconnect()
    bench.store(token("b"))
    bench.notify(b"b")
    bench.write(Delete(f"{CHANGE}0000000001"))
    bench.announce(token("c"))
    bench.one.reconnect()
    bench.owner.run_all()
    assert bench.known == {"a": 20, "b": 20, "c": 20}


def test_a_parent_that_was_made_anew(bench: Bench) -> None:
    bench.start()
    for expires_ms in (2, 3):
        bench.announce(token("a", expires_ms))
    bench.one.disconnect()
    bench.write(Delete(f"{CHANGE}0000000000"), Delete(f"{CHANGE}0000000001"), Delete(CHANGES), Create(CHANGES))
    bench.announce(token("a", 4))
    bench.one.reconnect()
    bench.owner.run_all()
    assert bench.known == {"a": 4}
    bench.announce(token("a", 5))
    assert bench.known == {"a": 5}


def test_a_new_session_reads_everything(bench: Bench) -> None:
    bench.start()
    bench.announce(token("a"))
    bench.announce(token("b"))
    bench.one.disconnect()
    bench.expire(bench.one)
    bench.store(token("c"))
    bench.write(Delete(f"{TOKENS}/a"))
    bench.one.reconnect()
    bench.owner.run_all()
    assert bench.known == {"b": 20, "c": 20}
    bench.announce(token("d"))
    assert bench.known == {"b": 20, "c": 20, "d": 20}


def test_notifications_are_deleted_when_they_are_old(bench: Bench) -> None:
    bench.start()
    bench.announce(token("a"))
    bench.now_ms += EXPIRATION_MS
    bench.announce(token("a", 3))
    assert bench.data(f"{CHANGE}0000000000") is not None, "the notification is not 15 minutes old yet"
    bench.now_ms += 1
    bench.announce(token("a", 4))
    assert [bench.data(f"{CHANGE}000000000{number}") is None for number in range(3)] == [True, False, False]
    assert bench.known == {"a": 4}


@pytest.mark.parametrize("code", [RegistryCode.NO_NODE, RegistryCode.NO_AUTH])
def test_an_old_notification_that_cannot_be_deleted(bench: Bench, code: RegistryCode) -> None:
    bench.start()
    bench.announce(token("a"))
    bench.embedded.plan = lambda call: code if isinstance(call.operation, Delete) else None
    bench.now_ms += EXPIRATION_MS + 1
    bench.announce(token("a", 3))
    assert bench.known == {"a": 3}
    assert bench.timers.next_deadline_ms is None, "this must not cause a re-read"


# Failures.


@pytest.mark.parametrize("number", range(1, 5))
def test_a_failed_read_is_repeated(bench: Bench, number: int) -> None:
    bench.start()
    bench.announce(token("a"))
    met = fault_at(bench, number, RegistryCode.NO_AUTH)
    bench.one.disconnect()
    bench.announce(token("a", 3))
    bench.store(token("b"))
    bench.one.reconnect()
    bench.owner.run_all()
    bench.embedded.plan = None
    if met and bench.timers.next_deadline_ms is not None:
        bench.advance(RETRY_MS)
        assert bench.known == {"a": 3, "b": 20}, "all tokens are read"
    assert bench.known["a"] == 3


def test_a_failed_start_is_reported_and_repeated(bench: Bench) -> None:
    fault_at(bench, 1, RegistryCode.NO_AUTH)
    bench.start()
    (error,) = bench.ready
    assert getattr(error, "code", None) is RegistryCode.NO_AUTH
    bench.embedded.plan = None
    bench.write(Create("/delegation_token"), Create(TOKENS))
    bench.store(token("a"))
    bench.advance(RETRY_MS)
    assert bench.known == {"a": 20}
    assert len(bench.ready) == 1


def test_a_change_sees_that_of_another_broker(bench: Bench) -> None:
    bench.start()
    bench.announce(token("a"))
    seen: list[TokenInformation | None] = []

    def revise(before: TokenInformation | None) -> TokenInformation | None:
        seen.append(before)
        if len(seen) == 1:
            bench.other.submit(
                [SetData(f"{TOKENS}/a", DELEGATION_TOKEN.encode(stored_token(token("a", 25))))], lambda outcomes: None
            )
            bench.other._deliver()  # before the write
        return before and before._replace(expires_ms=before.expires_ms + 1)

    bench.tokens.change("a", revise, bench.done.append)
    bench.owner.run_all()
    assert (bench.done, seen) == ([None], [token("a"), token("a", 25)])
    assert bench.known == {"a": 26}


def test_a_refused_change(bench: Bench) -> None:
    bench.start()
    bench.announce(token("a"))
    writes = bench.writes()

    def refuse(before: TokenInformation | None) -> TokenInformation | None:
        raise BrokerError(ErrorCode.DELEGATION_TOKEN_EXPIRED)

    bench.tokens.change("a", refuse, bench.done.append)
    bench.owner.run_all()
    (error,) = bench.done
    assert error is not None
    assert error.code is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert (writes, bench.known) == ([], {"a": 20})


def test_a_change_that_always_conflicts(bench: Bench) -> None:
    bench.start()
    bench.embedded.plan = lambda call: RegistryCode.NODE_EXISTS if isinstance(call.operation, Create) else None
    bench.change("a", token())
    (error,) = bench.done
    assert error is not None
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert str(ATTEMPTS_MAX) in error.detail
    assert bench.known == {}


def test_a_change_continues_in_the_next_session(bench: Bench) -> None:
    bench.start()

    def plan(call: RegistryCall) -> Fault | None:
        if isinstance(call.operation, Create) and call.operation.path == CHANGE:
            bench.embedded.plan = None
            return Fault.EXPIRE_BEFORE
        return None

    bench.embedded.plan = plan
    bench.change("a", token())
    assert (bench.done, bench.known) == ([None], {"a": 20})
    (listed,) = bench.write(GetChildren(CHANGES))
    assert getattr(listed, "names", ()) == ("token_change_0000000000",)


def test_nothing_is_read_after_the_end(bench: Bench) -> None:
    bench.start()
    bench.tokens.close()
    bench.announce(token("a"))
    assert bench.known == {}


@pytest.mark.defect
def test_a_failing_listener_does_not_stop_others(bench: Bench) -> None:
    bench.start()

    def fail(token_id: str) -> None:
        raise RuntimeError("planned")

    bench.tokens.on_change = fail
    bench.announce(token("a"))
    bench.tokens.on_change = bench.told.append
    bench.announce(token("b"))
    assert (bench.known, bench.told) == ({"a": 20, "b": 20}, ["b"])
