"""The refused logins of one client: what a refusal means, and when the client tries again.

A refusal ends the calls that are waiting for that broker, and reads raise it once. It is not the end of anything else:
the client tries again by itself, after a pause that doubles from one refused attempt to the next, until a broker
accepts a login. Later calls wait for the outcome of the next attempt.

A server may lock an account after a few wrong passwords. While no broker serves the client, all its links therefore
share the pause, and only one of them tries at a time; otherwise only the broker that refused has to wait. A broker that
accepts a login shows that the credentials are right, so this ends the pauses of all brokers.

Source: Apache Kafka, `NetworkClient`, which connects again after the usual backoff; its reads raise every refusal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.routing.retry import Backoff
from kafkawire.sdk.transport.wire import Address

__all__ = ["REFUSED_PAUSE_MAX_MS", "REFUSED_PAUSE_MS", "Refusal", "Refusals"]

#: The pause after the first refused login: longer than a broker needs to load new credentials.
REFUSED_PAUSE_MS: Final = 1_000

#: The longest pause: two attempts a minute lock hardly any account that is not locked already, and a client works again
#: half a minute after its login has been mended.
REFUSED_PAUSE_MAX_MS: Final = 30_000


class Refusal(NamedTuple):
    """A refused login.

    Attributes:
        error: why it was refused.
        happened_ms: when it was refused.
        not_before_ms: when the next attempt may begin.
    """

    error: KafkaWireError
    happened_ms: int
    not_before_ms: int


class Refusals:
    """The refusals since a broker last accepted a login of one client.

    Args:
        fraction: returns a random number in [0, 1), for the pauses.
    """

    def __init__(self, fraction: Callable[[], float]) -> None:
        self._backoff = Backoff(REFUSED_PAUSE_MS, REFUSED_PAUSE_MAX_MS, fraction)
        self._attempts = 0
        self._last: Refusal | None = None
        self._at: dict[Address, Refusal] = {}

    @property
    def is_pausing(self) -> bool:
        """Whether no login has been accepted since the last refusal, so some link may have to wait."""
        return self._last is not None

    @property
    def is_refused(self) -> bool:
        """Whether the last attempt at some broker was refused."""
        return bool(self._at)

    @property
    def last_error(self) -> KafkaWireError | None:
        """The error of the last refusal, unless the brokers can no longer be reached at all."""
        return self._last.error if self._last is not None and self._at else None

    def refused(self, address: Address, error: KafkaWireError, began_ms: int, now_ms: int) -> None:
        """Record a refused login; logins that began before the previous refusal count as one attempt.

        Args:
            address: the broker's address.
            error: why the login was refused.
            began_ms: when the attempt began.
            now_ms: the time.
        """
        last = self._last
        if last is None or began_ms >= last.happened_ms:
            self._attempts += 1
            not_before_ms = now_ms + self._backoff.pause_ms(self._attempts)
        else:
            not_before_ms = last.not_before_ms
        self._last = self._at[address] = Refusal(error, now_ms, not_before_ms)

    def accepted(self) -> None:
        """Start over, because a broker has accepted a login."""
        self._attempts = 0
        self._last = None
        self._at.clear()

    def forget(self, address: Address) -> None:
        """Forget the refusal at an address that is no longer used, or cannot be reached any more; a pause goes on."""
        self._at.pop(address, None)

    def at(self, address: Address) -> Refusal | None:
        """Return the last refusal at an address; None if there has been none since a login was accepted."""
        return self._at.get(address)

    def not_before_ms(self, address: Address, *, is_served: bool) -> int:
        """Return when the next login at an address may begin.

        Args:
            address: the broker's address.
            is_served: whether the client has a connection to any broker.
        """
        refusal = self._at.get(address) if is_served else self._last
        return 0 if refusal is None else refusal.not_before_ms
