"""A quota of one kind: the limits of users and client ids, and the rates of those that use it.

The most specific limit applies to a client, and all clients to which it applies by the same user and client id share
it: a limit for a user is shared by all of the user's client ids, whereas the default for client ids gives each of them
a rate of its own. A machine without I/O.

    user and client id, user and default client id, user,
    default user and client id, default user and default client id, default user,
    client id, default client id                                                        in this order

Source: `ClientQuotaManager` in Apache Kafka 4.3; KIP-13, KIP-55.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from kafkawire.reference_broker.metadata.entity_configs import DEFAULT, EntityName
from kafkawire.reference_broker.security.quotas.rates import MAX_THROTTLE_MS, SampledRate, Window, throttle_ms

__all__ = ["IDLE_MS", "METERS_MAX", "Client", "ClientQuota", "Meter", "Owner", "RateQuota"]

#: How long a rate is kept after its last use, as in Kafka.
IDLE_MS: Final = 3_600_000

#: The maximum number of rates: clients choose their ids, so they could otherwise fill the memory. The least recently
#: used one is dropped first, which forgives what its client has used in the window.
METERS_MAX: Final = 20_000


class Client(NamedTuple):
    """What quotas distinguish clients by.

    Attributes:
        user: the name of the client's principal.
        client_id: the client's name for itself.
    """

    user: str
    client_id: str


class Owner(NamedTuple):
    """The clients that share a rate.

    Attributes:
        user: the name of their principal; empty if they share it whatever their principal.
        client_id: their client id; empty if they share it whatever their client id.
    """

    user: str
    client_id: str


class Meter(Protocol):
    """What one owner has used of a quota."""

    def limit(self, most: float | None) -> None:
        """Apply a new limit; None for no limit."""
        ...


M = TypeVar("M", bound=Meter)

#: The user and client id that a limit is for; see `EntityName`.
_Key = tuple[EntityName, EntityName]

#: Whether a limit depends on the user, and whether it depends on the client id.
_Level = tuple[bool, bool]


class ClientQuota(Generic[M]):
    """The limits of a quota, and the meters of its owners.

    Args:
        new_meter: returns a meter.

    Attributes:
        is_enabled: whether there is any limit. Without one, nothing is measured.
    """

    def __init__(self, new_meter: Callable[[], M]) -> None:
        self._new_meter = new_meter
        self._limits: dict[_Key, float] = {}
        #: The number of limits at each level.
        self._levels: Counter[_Level] = Counter()
        #: In the order of their last use.
        self._meters: dict[Owner, tuple[M, int]] = {}
        self.is_enabled = False

    def set_limit(self, user: EntityName, client_id: EntityName, limit: float | None) -> None:
        """Set a limit, or remove it with None; what has been measured so far is kept."""
        key = user, client_id
        before = self._limits.pop(key, None)
        if limit is not None:
            self._limits[key] = limit
        self._levels[user is not None, client_id is not None] += (limit is not None) - (before is not None)
        self.is_enabled = bool(self._limits)
        if limit != before:
            for owner, (meter, _) in self._meters.items():
                meter.limit(self.limit_of(owner))

    def owner_of(self, client: Client) -> Owner:
        """Return the owner of the rate to which a client contributes."""
        user, client_id = client
        used = [level for level, count in self._levels.items() if count]
        if len(used) <= 1:  # one level decides, whether or not it has a limit for this client
            has_user, has_client_id = used[0] if used else (False, True)
            return Owner(user if has_user else "", client_id if has_client_id else "")
        limits = self._limits
        if (user, client_id) in limits or (user, DEFAULT) in limits:
            return Owner(user, client_id)
        if (user, None) in limits:
            return Owner(user, "")
        if (DEFAULT, client_id) in limits or (DEFAULT, DEFAULT) in limits:
            return Owner(user, client_id)
        if (DEFAULT, None) in limits:
            return Owner(user, "")
        return Owner("", client_id)

    def limit_of(self, owner: Owner) -> float | None:
        """Return the limit of an owner, or None if it has none."""
        user, client_id = owner
        keys: tuple[_Key, ...]
        if user and client_id:
            keys = ((user, client_id), (user, DEFAULT), (DEFAULT, client_id), (DEFAULT, DEFAULT))
        elif user:
            keys = ((user, None), (DEFAULT, None))
        else:
            keys = ((None, client_id), (None, DEFAULT)) if client_id else ()
        return next((self._limits[key] for key in keys if key in self._limits), None)

    def meter_of(self, client: Client, now_ms: int) -> M:
        """Return the meter of a client's owner; the meters of owners that have long been idle are dropped."""
        owner = self.owner_of(client)
        found = self._meters.pop(owner, None)
        if found is None:
            self._drop_idle(now_ms)
            meter = self._new_meter()
            meter.limit(self.limit_of(owner))
        else:
            meter, _ = found
        self._meters[owner] = meter, now_ms
        return meter

    def _drop_idle(self, now_ms: int) -> None:
        while self._meters:
            owner = next(iter(self._meters))
            if len(self._meters) < METERS_MAX and now_ms - self._meters[owner][1] < IDLE_MS:
                return
            del self._meters[owner]


class _RateMeter:
    """A rate with a limit."""

    __slots__ = ("most", "rate")

    def __init__(self, window: Window) -> None:
        self.rate = SampledRate(window)
        self.most: float | None = None

    def limit(self, most: float | None) -> None:
        self.most = most


class RateQuota:
    """A quota on a rate, such as bytes per second.

    Args:
        window: see `Window`.
        throttle_ms_max: the longest time for which a client is throttled.

    Attributes:
        limits: the limits and meters.
    """

    def __init__(self, window: Window, throttle_ms_max: int = MAX_THROTTLE_MS) -> None:
        self._window = window
        self._throttle_ms_max = throttle_ms_max
        self.limits = ClientQuota(lambda: _RateMeter(window))

    def record(self, client: Client, value: float, now_ms: int) -> int:
        """Count a value, and return how long to throttle the client because of it, in ms; 0 for not at all."""
        if not self.limits.is_enabled:
            return 0
        meter = self.limits.meter_of(client, now_ms)
        meter.rate.record(value, now_ms)
        if meter.most is None:
            return 0
        return throttle_ms(meter.rate, meter.most, now_ms, most_ms=self._throttle_ms_max)

    def record_silently(self, client: Client, value: float, now_ms: int) -> None:
        """Count a value that matters only for later requests; a negative one takes back an earlier value."""
        if self.limits.is_enabled:
            self.limits.meter_of(client, now_ms).rate.record(value, now_ms)

    def most_at_once(self, client: Client, now_ms: int) -> float | None:
        """Return the highest value that would not be throttled after an idle time; None if nothing limits it."""
        if not self.limits.is_enabled:
            return None
        most = self.limits.meter_of(client, now_ms).most
        samples, sample_ms = self._window
        return None if most is None else most * (samples - 1) * sample_ms / 1_000
