"""Histories of fetch sessions, with the answers from Apache Kafka 4.3.0, and a player that runs them on a broker.

Topics `a` (three partitions), `b` and `c` (one each) exist and are empty. Letters denote sessions: `s` is the first
session of a history, `t` the second; `?` is a session that does not exist.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.storage.produced_batches import produced

__all__ = ["HISTORIES", "PARTITIONS", "Answer", "Fetch", "Player", "Produce", "Step"]

PARTITIONS = {"a": 3, "b": 1, "c": 1}

BY_NAME, BY_ID = 12, 17

_MEBIBYTE = 1024 * 1024
_NO_TOPIC = uuid.UUID(int=77).bytes


class Fetch(NamedTuple):
    """A fetch: the letter of its session, its epoch, `a0@5` for a partition and offset, `a0` to forget a partition."""

    session: str
    epoch: int
    partitions: str = ""
    forgotten: str = ""
    version: int = BY_ID
    max_bytes: int = _MEBIBYTE


class Produce(NamedTuple):
    """One record for each partition."""

    partitions: str


class Answer(NamedTuple):
    """The answer to a fetch: an error code, the letter of the session, and `a0:HIGH WATERMARK+BATCHES` or `a0!CODE`."""

    code: ErrorCode
    session: str
    partitions: str


Step = tuple[Fetch | Produce, Answer | None]

_NOT_FOUND = Answer(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "", "")
_WRONG_EPOCH = Answer(ErrorCode.INVALID_FETCH_SESSION_EPOCH, "", "")
_WRONG_NAMES = Answer(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "", "")


def _ok(session: str, partitions: str = "") -> Answer:
    return Answer(ErrorCode.NONE, session, partitions)


HISTORIES: dict[str, list[Step]] = {
    "only news": [
        (Produce("a0"), None),
        (Fetch("", 0, "a0@0 a1@0 b0@0"), _ok("s", "a0:1+1 a1:0+0 b0:0+0")),
        (Fetch("s", 1), _ok("s", "a0:1+1")),
        (Fetch("s", 2, "a0@1"), _ok("s")),
        (Fetch("s", 3), _ok("s")),
        (Produce("a1"), None),
        (Fetch("s", 4), _ok("s", "a1:1+1")),
        (Fetch("s", 5), _ok("s", "a1:1+1")),
        (Fetch("s", 6, "a1@1"), _ok("s")),
        (Fetch("s", 7), _ok("s")),
    ],
    "news without room": [
        (Fetch("", 0, "a0@0 a1@0 b0@0"), _ok("s", "a0:0+0 a1:0+0 b0:0+0")),
        (Produce("a0 a1 b0 a1"), None),
        (Fetch("s", 1, max_bytes=1), _ok("s", "a0:1+1 a1:2+0 b0:1+0")),
        (Fetch("s", 2, max_bytes=1), _ok("s", "a1:2+1")),
        (Fetch("s", 3, max_bytes=1), _ok("s", "b0:1+1")),
        (Fetch("s", 4, "a0@1 a1@2", max_bytes=1), _ok("s", "b0:1+1")),
        (Fetch("s", 5, "b0@1"), _ok("s")),
    ],
    "turns": [
        (Fetch("", 0, "a0@0 a1@0 b0@0 a2@0"), _ok("s", "a0:0+0 a1:0+0 b0:0+0 a2:0+0")),
        (Produce("a0 a1 a2 b0 c0 a0 a1 a2 b0 c0 a0 a1 a2 b0 c0"), None),
        (Fetch("s", 1, max_bytes=1), _ok("s", "a0:3+1 a1:3+0 b0:3+0 a2:3+0")),
        (Fetch("s", 2, max_bytes=1), _ok("s", "a1:3+1")),
        (Fetch("s", 3, max_bytes=1), _ok("s", "b0:3+1")),
        (Fetch("s", 4, max_bytes=1), _ok("s", "a2:3+1")),
        (Fetch("s", 5, max_bytes=1), _ok("s", "a0:3+1")),
        (Fetch("s", 6, max_bytes=1), _ok("s", "a1:3+1")),
        (Fetch("s", 7, max_bytes=1), _ok("s", "b0:3+1")),
        (Fetch("s", 8, "a0@1", max_bytes=1), _ok("s", "a2:3+1")),
        (Fetch("s", 9, "a0@2 c0@0", max_bytes=1), _ok("s", "a0:3+1 c0:3+0")),
        (Fetch("s", 10, max_bytes=250), _ok("s", "a1:3+1")),
        (Fetch("s", 11, max_bytes=250), _ok("s", "b0:3+1")),
    ],
    "turns of a full one": [
        (Produce("a0 a1 a2 b0 c0 a0 a1 a2 b0 c0 a0 a1 a2 b0 c0"), None),
        (Fetch("", 0, "a0@0 a1@0 b0@0 a2@0", max_bytes=1), _ok("s", "a0:3+1 a1:3+0 b0:3+0 a2:3+0")),
        (Fetch("s", 1, max_bytes=1), _ok("s", "a0:3+1")),
        (Fetch("s", 2, max_bytes=1), _ok("s", "a1:3+1")),
        (Fetch("s", 3, max_bytes=1), _ok("s", "b0:3+1")),
        (Fetch("s", 4, max_bytes=1), _ok("s", "a2:3+1")),
    ],
    "forgotten by name": [
        (Produce("a0 a1"), None),
        (Fetch("", 0, "a0@0 a1@0", version=BY_NAME), _ok("s", "a0:1+1 a1:1+1")),
        (Fetch("s", 1, forgotten="a0", version=BY_NAME), _ok("s", "a1:1+1")),
        (Fetch("s", 2, "a0@1", version=BY_NAME), _ok("s", "a1:1+1 a0:1+0")),
        (Produce("a0"), None),
        (Fetch("s", 3, forgotten="a1", version=BY_NAME), _ok("s", "a0:2+1")),
        (Fetch("s", 4, forgotten="a0 b0", version=BY_NAME), _ok("")),
        (Fetch("s", 5, version=BY_NAME), _NOT_FOUND),
    ],
    "unknown by name": [
        (Produce("a0"), None),
        (Fetch("", 0, "x0@0 a0@0 a7@0 x1@0 b0@0", version=BY_NAME), _ok("s", "a0:1+1 b0:0+0 x0!3 a7!3 x1!3")),
        (Fetch("s", 1, version=BY_NAME), _ok("s", "a0:1+1 x0!3 a7!3 x1!3")),
        (Fetch("s", 2, "a0@1", version=BY_NAME), _ok("s", "x0!3 a7!3 x1!3")),
        (Fetch("s", 3, forgotten="x0", version=BY_NAME), _ok("s", "a7!3 x1!3")),
        (Fetch("s", 4, "x0@0 c0@0", version=BY_NAME), _ok("s", "c0:0+0 a7!3 x1!3 x0!3")),
        (Fetch("s", 5, forgotten="x0 x1 a7", version=BY_NAME), _ok("s")),
        (Fetch("s", 6, version=BY_NAME), _ok("s")),
    ],
    "out of range by name": [
        (Produce("a0"), None),
        (Fetch("", 0, "a0@5 a1@0", version=BY_NAME), _ok("s", "a0!1 a1:0+0")),
        (Fetch("s", 1, version=BY_NAME), _ok("s", "a0!1")),
        (Fetch("s", 2, "a0@1", version=BY_NAME), _ok("s", "a0:1+0")),
        (Fetch("s", 3, version=BY_NAME), _ok("s")),
        (Fetch("s", 4, "a0@-1", version=BY_NAME), _ok("s", "a0!1")),
        (Fetch("s", 5, "a0@0", version=BY_NAME), _ok("s", "a0:1+1")),
    ],
    "forgotten by id": [
        (Produce("a0 a1"), None),
        (Fetch("", 0, "a0@0 a1@0"), _ok("s", "a0:1+1 a1:1+1")),
        (Fetch("s", 1, forgotten="a0"), _ok("s", "a1:1+1")),
        (Fetch("s", 2, "a0@1"), _ok("s", "a1:1+1 a0:1+0")),
        (Produce("a0"), None),
        (Fetch("s", 3, forgotten="a1"), _ok("s", "a0:2+1")),
        (Fetch("s", 4, forgotten="a0 b0"), _ok("")),
        (Fetch("s", 5), _NOT_FOUND),
    ],
    "unknown by id": [
        (Produce("a0"), None),
        (Fetch("", 0, "x0@0 a0@0 a7@0 x1@0 b0@0"), _ok("s", "a0:1+1 b0:0+0 x0!100 x1!100 a7!3")),
        (Fetch("s", 1), _ok("s", "a0:1+1 x0!100 x1!100 a7!3")),
        (Fetch("s", 2, "a0@1"), _ok("s", "x0!100 x1!100 a7!3")),
        (Fetch("s", 3, forgotten="x0"), _ok("s", "x1!100 a7!3")),
        (Fetch("s", 4, "x0@0 c0@0"), _ok("s", "c0:0+0 x1!100 x0!100 a7!3")),
        (Fetch("s", 5, forgotten="x0 x1 a7"), _ok("s")),
        (Fetch("s", 6), _ok("s")),
    ],
    "out of range by id": [
        (Produce("a0"), None),
        (Fetch("", 0, "a0@5 a1@0"), _ok("s", "a0!1 a1:0+0")),
        (Fetch("s", 1), _ok("s", "a0!1")),
        (Fetch("s", 2, "a0@1"), _ok("s", "a0:1+0")),
        (Fetch("s", 3), _ok("s")),
        (Fetch("s", 4, "a0@-1"), _ok("s", "a0!1")),
        (Fetch("s", 5, "a0@0"), _ok("s", "a0:1+1")),
    ],
    "epochs": [
        (Fetch("", 0, "a0@0"), _ok("s", "a0:0+0")),
        (Fetch("s", 2), _WRONG_EPOCH),
        (Fetch("s", 1), _ok("s")),
        (Fetch("s", 1), _WRONG_EPOCH),
        (Fetch("s", 3), _WRONG_EPOCH),
        (Fetch("s", 2), _ok("s")),
        (Fetch("s", 0, "a0@0"), _ok("t", "a0:0+0")),
        (Fetch("s", 3), _NOT_FOUND),
        (Fetch("t", 1), _ok("t")),
        (Fetch("t", -1, "a0@0"), _ok("", "a0:0+0")),
        (Fetch("t", 2), _NOT_FOUND),
        (Fetch("?", 1, "a0@0"), _NOT_FOUND),
        (Fetch("?", 0, "a0@0"), _ok("u", "a0:0+0")),
        (Fetch("?", -1, "a0@0"), _ok("", "a0:0+0")),
        (Fetch("", -1, "a0@0"), _ok("", "a0:0+0")),
        (Fetch("", 5, "a0@0"), _NOT_FOUND),
        (Fetch("", -2, "a0@0"), _NOT_FOUND),
    ],
    "names and ids": [
        (Fetch("", 0, "a0@0", version=BY_NAME), _ok("s", "a0:0+0")),
        (Fetch("s", 1, "b0@0"), _WRONG_NAMES),
        (Fetch("s", 1, "b0@0", version=BY_NAME), _ok("s", "b0:0+0")),
        (Fetch("", 0, "a0@0"), _ok("t", "a0:0+0")),
        (Fetch("t", 1, "b0@0", version=BY_NAME), _WRONG_NAMES),
        (Fetch("t", 2, "b0@0", version=BY_NAME), _WRONG_EPOCH),
        (Fetch("t", 1, "b0@0"), _ok("t", "b0:0+0")),
        (Fetch("t", 5, version=BY_NAME), _WRONG_EPOCH),
        (Fetch("t", 2), _ok("t")),
    ],
    "twice": [
        (Produce("a0 a0 a0 a1"), None),
        (Fetch("", 0, "a0@0 a1@0 a0@2"), _ok("s", "a0:3+1 a1:1+1")),
        (Fetch("s", 1, "a0@3 a1@1"), _ok("s")),
        (Fetch("s", 2, "b0@0 b0@0"), _ok("s", "b0:0+0")),
        (Fetch("s", 3, "c0@0", forgotten="c0"), _ok("s")),
        (Fetch("s", 4, forgotten="a0 a0"), _ok("s")),
        (Produce("a1 b0"), None),
        (Fetch("s", 5), _ok("s", "a1:2+1 b0:1+1")),
    ],
    "nothing asked for": [
        (Fetch("", 0), _ok("s")),
        (Fetch("s", 1, "a0@0"), _ok("s", "a0:0+0")),
        (Fetch("", -1), _ok("")),
        (Fetch("s", 2), _ok("s")),
    ],
    "all forgotten": [
        (Produce("a0 a1"), None),
        (Fetch("", 0, "a0@0"), _ok("s", "a0:1+1")),
        (Fetch("s", 1, "a1@0", forgotten="a1 a0"), _ok("", "a1:1+1")),
        (Fetch("s", 2), _NOT_FOUND),
        (Fetch("s", 1), _NOT_FOUND),
    ],
    "order": [
        (Produce("a0 b0 a1 c0"), None),
        (Fetch("", 0, "a0@0 b0@0 a1@0 c0@0 a2@0"), _ok("s", "a0:1+1 b0:1+1 a1:1+1 c0:1+1 a2:0+0")),
        (Fetch("s", 1), _ok("s", "a0:1+1 b0:1+1 a1:1+1 c0:1+1")),
        (Fetch("s", 2), _ok("s", "a0:1+1 b0:1+1 a1:1+1 c0:1+1")),
        (Fetch("s", 3, "b0@1"), _ok("s", "a0:1+1 a1:1+1 c0:1+1")),
        (Produce("b0"), None),
        (Fetch("s", 4), _ok("s", "b0:2+1 a0:1+1 a1:1+1 c0:1+1")),
    ],
    "old version": [
        (Produce("a0"), None),
        (Fetch("", 0, "a0@0", version=6), _ok("", "a0:1+1")),
        (Fetch("", 0, "a0@0", version=7), _ok("s", "a0:1+1")),
        (Fetch("s", 1, version=11), _ok("s", "a0:1+1")),
        (Fetch("s", 2, "a0@1", version=BY_NAME), _ok("s")),
    ],
    "full order": [
        (Fetch("", 0, "b0@0 x0@0 a0@0 x1@0 a1@0", version=BY_NAME), _ok("s", "b0:0+0 a0:0+0 a1:0+0 x0!3 x1!3")),
        (Fetch("s", 1, version=BY_NAME), _ok("s", "x0!3 x1!3")),
        (Produce("a0 b0 a1"), None),
        (Fetch("s", 2, version=BY_NAME), _ok("s", "b0:1+1 a0:1+1 a1:1+1 x0!3 x1!3")),
        (Fetch("s", 3, version=BY_NAME), _ok("s", "b0:1+1 a0:1+1 a1:1+1 x0!3 x1!3")),
    ],
}


class Player:
    """Runs histories on a broker.

    Args:
        ask: sends a request in a version and returns the response.
        produce: appends a batch to a partition of a topic.
        topics: the name and id of each topic.
    """

    def __init__(
        self,
        ask: Callable[[Message, int], Any],
        produce: Callable[[str, int, bytes], object],
        topics: dict[str, tuple[str, bytes]],
    ) -> None:
        self._ask = ask
        self._produce = produce
        self._topics = topics | {"x": ("no-such-topic", _NO_TOPIC)}
        self._letters = {name: letter for letter, names in self._topics.items() for name in names}
        self._sessions = {"": 0, "?": 77}

    def play(self, steps: Iterable[Fetch | Produce]) -> list[Answer | None]:
        """Return the answers to the fetches of a history."""
        return [self._fetch(step) if isinstance(step, Fetch) else self._append(step) for step in steps]

    def _append(self, step: Produce) -> None:
        for partition in step.partitions.split():
            self._produce(self._topics[partition[0]][0], int(partition[1:]), bytes(produced(b"v" * 100)))

    def _fetch(self, step: Fetch) -> Answer:
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=step.max_bytes,
            session_id=self._sessions[step.session],
            session_epoch=step.epoch,
            topics=[self._wanted(wanted, step.version) for wanted in step.partitions.split()],
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(*self._names(wanted[0], step.version), [int(wanted[1:])])
                for wanted in step.forgotten.split()
            ],
        )
        response = self._ask(request, step.version)
        return Answer(ErrorCode(response.error_code), self._letter(response.session_id), self._parts(response))

    def _names(self, letter: str, version: int) -> tuple[str, bytes]:
        name, topic_id = self._topics[letter]
        return (name, ZERO_UUID) if version < 13 else ("", topic_id)

    def _wanted(self, text: str, version: int) -> FetchRequest.FetchTopic:
        number, _, offset = text[1:].partition("@")
        partition = FetchRequest.FetchPartition(int(number), fetch_offset=int(offset), partition_max_bytes=_MEBIBYTE)
        return FetchRequest.FetchTopic(*self._names(text[0], version), [partition])

    def _letter(self, session_id: int) -> str:
        known = {number: letter for letter, number in self._sessions.items()}
        if session_id not in known:
            known[session_id] = chr(ord("s") + len(known) - 2)
            self._sessions[known[session_id]] = session_id
        return known[session_id]

    def _parts(self, response: Any) -> str:
        parts = []
        for topic in response.responses:
            letter = self._letters[topic.topic or topic.topic_id]
            for data in topic.partitions:
                name = f"{letter}{data.partition_index}"
                if data.error_code:
                    assert (data.high_watermark, data.log_start_offset, bytes(data.records or b"")) == (-1, -1, b"")
                    parts.append(f"{name}!{data.error_code}")
                else:
                    assert data.last_stable_offset == data.high_watermark
                    parts.append(f"{name}:{data.high_watermark}+{_batches(bytes(data.records or b''))}")
        return " ".join(parts)


def _batches(records: bytes) -> int:
    """Return the number of batches; all have the same size, and the last may be cut off."""
    return len(records) // len(produced(b"v" * 100))
