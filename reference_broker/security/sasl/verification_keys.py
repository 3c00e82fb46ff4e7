"""The keys that verify tokens: in memory for logins, and fetched in the background at intervals.

A token with an unknown key id makes the next fetch happen earlier, but neither the same id nor many different ids can
make it happen often.

Source: `RefreshingHttpsJwks` and `Retry` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from importlib.util import find_spec
from typing import Final, NamedTuple

from kafkawire.reference_broker.security.sasl.json_web_keys import VerificationKey, read_key_set, select_key
from kafkawire.reference_broker.work.background import Background
from kafkawire.reference_broker.work.timers import Timer, Timers
from kafkawire.sdk.states import Edges

__all__ = [
    "EARLY_FETCH_INTERVAL_MS",
    "KEY_EDGES",
    "KEY_ID_CHARACTERS_MAX",
    "UNKNOWN_IDS_MAX",
    "UNKNOWN_ID_MS",
    "KeyState",
    "RefreshTimes",
    "VerificationKeys",
]

_log = logging.getLogger("kafkawire.broker")

#: How long an unknown key id does not cause another early fetch, and for how many ids this is remembered; as in Kafka.
UNKNOWN_ID_MS: Final = 60_000
UNKNOWN_IDS_MAX: Final = 16

#: A longer key id does not cause an early fetch; as in Kafka.
KEY_ID_CHARACTERS_MAX: Final = 1_000

#: The least time between a fetch and an early one. Kafka has no such limit, so clients that invent key ids could make
#: it fetch without pause.
EARLY_FETCH_INTERVAL_MS: Final = 10_000

#: Returns the document with the keys; None if it has not changed. May block.
Fetch = Callable[[], bytes | None]


class RefreshTimes(NamedTuple):
    """When keys are fetched.

    Attributes:
        refresh_ms: the time between two fetches.
        retry_backoff_ms: the wait after the first failed attempt; it doubles with each further attempt.
        retry_backoff_max_ms: the time after which attempts stop until the next fetch is due.
    """

    refresh_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int


class KeyState(Enum):
    """What happens with the keys."""

    #: Nothing is fetched.
    STOPPED = "stopped"
    #: The document is being fetched.
    FETCHING = "fetching"
    #: An attempt has failed, and another follows.
    BACKING_OFF = "backing off"
    #: A fetch has ended, and the next one is not due yet.
    WAITING = "waiting"


KEY_EDGES: Final = Edges(
    "the keys of issuers of tokens",
    (KeyState.STOPPED,),
    {
        KeyState.STOPPED: {KeyState.FETCHING: "the listener starts"},
        KeyState.FETCHING: {
            KeyState.WAITING: "the document has arrived, or the attempts have taken too long",
            KeyState.BACKING_OFF: "an attempt fails",
        },
        KeyState.BACKING_OFF: {KeyState.FETCHING: "the backoff is over"},
        KeyState.WAITING: {KeyState.FETCHING: "the interval is over, or a token has an unknown key id"},
    },
    from_any={KeyState.STOPPED: "the listener stops"},
)


class VerificationKeys:
    """The keys of one document.

    Args:
        fetch: returns the document.
        location: the document's location, for the log.
        times: when it is fetched.
        document: the document, if it has been read already; it is fetched at the start regardless.

    Raises:
        ValueError: the given document is unusable.
        ImportError: `cryptography` is not installed.
    """

    def __init__(self, fetch: Fetch, location: str, times: RefreshTimes, document: bytes | None = None) -> None:
        if find_spec("cryptography") is None:
            raise ImportError("keys need the package cryptography")
        self._fetch = fetch
        self._location = location
        self._times = times
        self._keys = () if document is None else read_key_set(document)
        self._has_keys = document is not None
        self._state = KeyState.STOPPED
        self._timers: Timers | None = None
        self._background: Background | None = None
        self._timer: Timer | None = None
        #: Key ids that no key has, and until when they cause no early fetch; the oldest is first.
        self._unknown: dict[str, int] = {}
        self._is_wanted_early = False
        self._ended_ms = 0
        self._give_up_ms = 0
        self._attempts = 0
        #: Distinguishes an attempt from those of earlier starts.
        self._attempt = object()

    @property
    def state(self) -> KeyState:
        """What happens with the keys."""
        return self._state

    def start(self, timers: Timers, background: Background, now_ms: int) -> None:
        """Fetch the document now, and then at intervals; does nothing if it has been started.

        Args:
            timers: the broker's timers.
            background: runs the fetches.
            now_ms: the current time.
        """
        if self._state is KeyState.STOPPED:
            self._timers, self._background = timers, background
            self._begin(now_ms)

    def stop(self) -> None:
        """Stop fetching, and keep the keys. A fetch that is in progress ends without any effect."""
        self._state = KEY_EDGES.follow(self._state, KeyState.STOPPED)
        self._attempt = object()
        if self._timer is not None:
            self._timer.cancel()

    def key(self, algorithm: str, key_id: str | None, now_ms: int) -> VerificationKey | None:
        """Return the key for a token; None if it is not known, which can bring the next fetch forward.

        Args:
            algorithm: the algorithm that the token names.
            key_id: the key id that it names; None if it names none.
            now_ms: the current time.
        """
        found = select_key(self._keys, algorithm, key_id)
        if found is None and key_id is not None and len(key_id) <= KEY_ID_CHARACTERS_MAX:
            self._expedite(key_id, now_ms)
        return found

    def _expedite(self, key_id: str, now_ms: int) -> None:
        until_ms = self._unknown.pop(key_id, now_ms)
        if now_ms < until_ms <= now_ms + UNKNOWN_ID_MS:
            self._unknown[key_id] = until_ms
            return
        self._unknown[key_id] = now_ms + UNKNOWN_ID_MS
        if len(self._unknown) > UNKNOWN_IDS_MAX:
            del self._unknown[next(iter(self._unknown))]
        self._is_wanted_early = True
        if self._state is KeyState.WAITING:
            self._wait(now_ms)

    def _begin(self, now_ms: int) -> None:
        """Begin a fetch, of one or more attempts."""
        self._is_wanted_early = False
        self._attempts = 0
        self._give_up_ms = now_ms + self._times.retry_backoff_max_ms
        self._try(now_ms)

    def _try(self, now_ms: int) -> None:
        assert self._background is not None
        self._state = KEY_EDGES.follow(self._state, KeyState.FETCHING)
        self._attempts += 1
        attempt = self._attempt = object()
        found: list[tuple[VerificationKey, ...] | Exception | None] = []
        timers = self._timers

        def work() -> None:
            try:
                document = self._fetch()
                found.append(None if document is None else read_key_set(document))
            except (OSError, ValueError, ImportError) as error:
                found.append(error)

        def done(error: Exception | None) -> None:
            assert timers is not None
            timers.at(0, lambda now_ms: self._done(attempt, found[0] if found else error, now_ms))  # immediately

        self._background(work, done)

    def _done(self, attempt: object, found: tuple[VerificationKey, ...] | Exception | None, now_ms: int) -> None:
        if attempt is not self._attempt:
            return
        if isinstance(found, Exception):
            self._failed(found, now_ms)
            return
        if found is not None:
            self._keys, self._has_keys = found, True
            for key in found:
                self._unknown.pop(key.key_id or "", None)
            _log.info("read %d keys for tokens from %s", len(found), self._location)
        self._end(now_ms)

    def _failed(self, error: Exception, now_ms: int) -> None:
        left_ms = min(self._give_up_ms - now_ms, self._times.retry_backoff_max_ms)
        backoff_ms = min(self._times.retry_backoff_ms * 2 ** (self._attempts - 1), left_ms)
        if backoff_ms > 0:
            self._state = KEY_EDGES.follow(self._state, KeyState.BACKING_OFF)
            self._set_timer(now_ms + backoff_ms, self._try)
            return
        _log.warning(
            "cannot read the keys for tokens from %s after %d attempts: %s", self._location, self._attempts, error
        )
        self._end(now_ms)

    def _end(self, now_ms: int) -> None:
        self._state = KEY_EDGES.follow(self._state, KeyState.WAITING)
        self._ended_ms = now_ms
        self._wait(now_ms)

    def _wait(self, now_ms: int) -> None:
        """Set the timer for the next fetch."""
        interval_ms = self._times.refresh_ms
        if self._is_wanted_early or not self._has_keys:
            interval_ms = min(interval_ms, EARLY_FETCH_INTERVAL_MS)
        passed_ms = max(0, now_ms - self._ended_ms)  # the clock may have been set back
        self._set_timer(now_ms + max(0, interval_ms - passed_ms), self._begin)

    def _set_timer(self, deadline_ms: int, action: Callable[[int], None]) -> None:
        assert self._timers is not None
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timers.at(deadline_ms, action)
