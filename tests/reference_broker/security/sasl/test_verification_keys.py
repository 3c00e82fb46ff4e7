"""Keys are fetched at intervals, again after failures, and early for an unknown key id, but not often.

Method: drive the keys with timers and a background that the test controls; every edge of the table of states is taken.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

import pytest

from kafkawire.reference_broker.security.sasl.verification_keys import (
    EARLY_FETCH_INTERVAL_MS,
    KEY_EDGES,
    KEY_ID_CHARACTERS_MAX,
    UNKNOWN_ID_MS,
    UNKNOWN_IDS_MAX,
    KeyState,
    RefreshTimes,
    VerificationKeys,
)
from kafkawire.reference_broker.work.timers import Timers
from tests.reference_broker.security.sasl.signing import signing_keys

pytest.importorskip("cryptography")

TIMES = RefreshTimes(refresh_ms=3_600_000, retry_backoff_ms=100, retry_backoff_max_ms=10_000)

#: A wall clock, which is far from zero.
START_MS = 1_780_000_000_000

NO_KEYS = b'{"keys": []}'


def document(*names: str) -> bytes:
    keys = [each for each in json.loads(signing_keys().public)["keys"] if each.get("kid") in names]
    return json.dumps({"keys": keys}).encode()


class Issuer:
    """Keys, their timers, and a background whose work the test runs."""

    def __init__(self, *, first: bytes | None = None, times: RefreshTimes = TIMES) -> None:
        self.timers = Timers()
        self.now_ms = START_MS
        self.content: bytes | Exception | None = document("rsa")
        self.fetched_ms: list[int] = []
        self.waiting: list[tuple[Callable[[], None], Callable[[Exception | None], None]]] = []
        self.keys = VerificationKeys(self._fetch, "https://issuer.example/keys", times, first)
        self.seen = [self.keys.state]

    def _fetch(self) -> bytes | None:
        if isinstance(self.content, Exception):
            raise self.content
        return self.content

    def start(self) -> None:
        self.keys.start(self.timers, lambda work, done: self.waiting.append((work, done)), self.now_ms)
        self._look()

    def stop(self) -> None:
        self.keys.stop()
        self._look()

    def answer(self) -> None:
        """Complete the fetch that is under way."""
        work, done = self.waiting.pop()
        assert not self.waiting
        work()
        done(None)
        self.timers.fire(self.now_ms)
        self._look()

    def wait(self, duration_ms: int, *, answers: bool = True) -> None:
        """Let time pass; the fetches that begin in it are completed."""
        end_ms = self.now_ms + duration_ms
        while (deadline_ms := self.timers.next_deadline_ms) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.timers.fire(self.now_ms)
            self._look()
            if self.waiting:
                self.fetched_ms.append(self.now_ms - START_MS)
                if not answers:
                    break
                self.answer()
        self.now_ms = end_ms

    def knows(self, key_id: str | None, algorithm: str = "RS256") -> bool:
        found = self.keys.key(algorithm, key_id, self.now_ms) is not None
        self._look()
        return found

    def _look(self) -> None:
        if self.keys.state is not self.seen[-1]:
            self.seen.append(self.keys.state)


def started() -> Issuer:
    issuer = Issuer()
    issuer.start()
    issuer.answer()
    return issuer


def test_the_first_fetch() -> None:
    issuer = Issuer()
    assert not issuer.knows("rsa")
    issuer.start()
    assert issuer.keys.state is KeyState.FETCHING
    assert not issuer.knows("rsa")
    issuer.answer()
    assert issuer.knows("rsa")
    assert issuer.keys.state is KeyState.WAITING


def test_keys_that_have_been_read_already() -> None:
    issuer = Issuer(first=document("rsa"))
    assert issuer.knows("rsa")
    issuer.start()
    issuer.content = None  # unchanged
    issuer.answer()
    assert issuer.knows("rsa")
    with pytest.raises(ValueError, match="not JSON"):
        Issuer(first=b"{")


def test_the_interval() -> None:
    issuer = started()
    issuer.content = document("p256")
    issuer.wait(2 * TIMES.refresh_ms)
    assert issuer.fetched_ms == [TIMES.refresh_ms, 2 * TIMES.refresh_ms]
    assert not issuer.knows("rsa")
    assert issuer.knows("p256", "ES256")


def test_backoff(caplog: pytest.LogCaptureFixture) -> None:
    """As in Kafka, the waits double, and the last attempt is at the end of the time for all attempts."""
    caplog.set_level(logging.WARNING)
    issuer = started()
    issuer.content = OSError("unreachable")
    issuer.wait(TIMES.refresh_ms + TIMES.retry_backoff_max_ms)
    waits = [0, 100, 300, 700, 1_500, 3_100, 6_300, 10_000]
    assert [each - TIMES.refresh_ms for each in issuer.fetched_ms] == waits
    assert [record.getMessage() for record in caplog.records] == [
        "cannot read the keys for tokens from https://issuer.example/keys after 8 attempts: unreachable"
    ]
    assert issuer.knows("rsa")  # the old keys stay
    issuer.content = document("rsa-other")
    issuer.wait(TIMES.refresh_ms)
    assert issuer.knows("rsa-other")


def test_without_a_backoff_there_is_one_attempt() -> None:
    """As in Kafka, no backoff means no further attempts."""
    issuer = Issuer(times=TIMES._replace(retry_backoff_ms=0))
    issuer.content = OSError("unreachable")
    issuer.start()
    issuer.answer()
    assert issuer.keys.state is KeyState.WAITING


@pytest.mark.parametrize("content", [b"<html>", b"{}", OSError("reset"), TimeoutError("slow")])
def test_an_unusable_document_is_like_a_failure(content: bytes | Exception) -> None:
    issuer = started()
    issuer.content = content
    issuer.wait(TIMES.refresh_ms)
    assert issuer.keys.state is KeyState.BACKING_OFF
    issuer.content = document("p256")
    issuer.wait(TIMES.retry_backoff_ms)
    assert issuer.knows("p256", "ES256")


def test_a_defect_in_the_background_is_like_a_failure() -> None:
    issuer = Issuer()
    issuer.start()
    _, done = issuer.waiting.pop()
    done(RuntimeError("a defect"))
    issuer.timers.fire(issuer.now_ms)
    assert issuer.keys.state is KeyState.BACKING_OFF


def test_without_any_keys_attempts_go_on() -> None:
    issuer = Issuer()
    issuer.content = OSError("unreachable")
    issuer.start()
    issuer.answer()
    issuer.wait(TIMES.retry_backoff_max_ms)
    issuer.content = document("rsa")
    issuer.wait(EARLY_FETCH_INTERVAL_MS)
    assert issuer.knows("rsa")


def test_an_unknown_key_id_brings_the_fetch_forward() -> None:
    issuer = started()
    issuer.content = document("rsa-other")
    issuer.wait(EARLY_FETCH_INTERVAL_MS)
    assert not issuer.knows("rsa-other")
    issuer.wait(0)
    assert issuer.knows("rsa-other")


def test_an_early_fetch_keeps_its_distance() -> None:
    issuer = started()
    issuer.content = document("rsa-other")
    issuer.wait(1)
    assert not issuer.knows("rsa-other")
    issuer.wait(EARLY_FETCH_INTERVAL_MS)
    assert issuer.fetched_ms == [EARLY_FETCH_INTERVAL_MS]
    assert issuer.knows("rsa-other")


def test_an_id_that_stays_unknown() -> None:
    """Its tokens cause one fetch a minute; asking more often does not postpone the next one."""
    issuer = started()
    for _ in range(200):
        assert not issuer.knows("x")
        issuer.wait(1_000)
    assert issuer.fetched_ms == [EARLY_FETCH_INTERVAL_MS, UNKNOWN_ID_MS, 2 * UNKNOWN_ID_MS, 3 * UNKNOWN_ID_MS]


def test_an_id_that_was_known_in_between() -> None:
    """If its key disappears, the id is unknown as if for the first time."""
    issuer = started()
    assert not issuer.knows("rsa-other")
    issuer.content = document("rsa-other")
    issuer.wait(EARLY_FETCH_INTERVAL_MS)
    assert issuer.knows("rsa-other")
    assert not issuer.knows("rsa")
    issuer.content = document("rsa")
    issuer.wait(EARLY_FETCH_INTERVAL_MS)
    assert not issuer.knows("rsa-other")
    issuer.wait(EARLY_FETCH_INTERVAL_MS)
    assert len(issuer.fetched_ms) == 3


def test_many_unknown_ids() -> None:
    """A client that invents key ids cannot make the broker fetch more often than the limit."""
    issuer = started()
    for number in range(600):
        issuer.knows(f"x{number}")
        issuer.wait(100)
    assert issuer.fetched_ms == [EARLY_FETCH_INTERVAL_MS * each for each in range(1, 7)]


def test_few_unknown_ids_are_remembered() -> None:
    issuer = started()
    for number in range(UNKNOWN_IDS_MAX + 1):
        issuer.knows(f"x{number}")
    issuer.wait(EARLY_FETCH_INTERVAL_MS)
    issuer.knows(f"x{UNKNOWN_IDS_MAX}")
    issuer.wait(EARLY_FETCH_INTERVAL_MS)
    assert len(issuer.fetched_ms) == 1
    issuer.knows("x0")  # forgotten, so it is fetched again
    issuer.wait(EARLY_FETCH_INTERVAL_MS)
    assert len(issuer.fetched_ms) == 2


@pytest.mark.parametrize("key_id", [None, "x" * (KEY_ID_CHARACTERS_MAX + 1)])
def test_what_does_not_bring_the_fetch_forward(key_id: str | None) -> None:
    issuer = started()
    assert not issuer.knows(key_id, "ES256")
    issuer.wait(2 * EARLY_FETCH_INTERVAL_MS)
    assert issuer.fetched_ms == []


def test_an_unknown_id_during_a_fetch() -> None:
    """The document may have been read before the key was added, so another fetch follows."""
    issuer = started()
    issuer.wait(TIMES.refresh_ms, answers=False)
    assert not issuer.knows("rsa-other")
    issuer.answer()
    issuer.content = document("rsa-other")
    issuer.wait(EARLY_FETCH_INTERVAL_MS)
    assert issuer.knows("rsa-other")


def test_the_clock_is_set_back() -> None:
    issuer = started()
    issuer.now_ms -= 100 * TIMES.refresh_ms
    issuer.timers.shift(-100 * TIMES.refresh_ms)
    issuer.content = document("rsa-other")
    assert not issuer.knows("rsa-other")
    issuer.wait(EARLY_FETCH_INTERVAL_MS)
    assert issuer.knows("rsa-other")


def test_a_stop_during_a_fetch() -> None:
    issuer = Issuer()
    issuer.start()
    issuer.stop()
    issuer.answer()
    assert issuer.keys.state is KeyState.STOPPED
    assert not issuer.knows("rsa")
    assert issuer.timers.next_deadline_ms is None
    issuer.start()
    issuer.answer()
    assert issuer.knows("rsa")


def test_a_start_is_made_once() -> None:
    issuer = Issuer()
    issuer.start()
    issuer.start()
    assert len(issuer.waiting) == 1


def test_a_result_of_an_earlier_start_has_no_effect() -> None:
    issuer = Issuer()
    issuer.start()
    (work, done), issuer.waiting = issuer.waiting[0], []
    issuer.stop()
    issuer.start()
    work()
    done(None)
    issuer.timers.fire(issuer.now_ms)
    assert issuer.keys.state is KeyState.FETCHING
    issuer.answer()
    assert issuer.knows("rsa")


def test_every_edge() -> None:
    taken = set()
    for stopped_in in KeyState:
        issuer = Issuer()
        issuer.content = OSError("unreachable")
        if stopped_in is KeyState.STOPPED:
            issuer.stop()
            taken.add((KeyState.STOPPED, issuer.keys.state))
        issuer.start()
        if stopped_in is not KeyState.FETCHING:
            issuer.answer()
            if stopped_in is KeyState.WAITING:
                issuer.content = NO_KEYS
                issuer.wait(TIMES.retry_backoff_ms)
                issuer.wait(TIMES.refresh_ms)
        issuer.stop()
        taken.update(zip(issuer.seen, issuer.seen[1:], strict=False))
    assert taken == set(KEY_EDGES)
