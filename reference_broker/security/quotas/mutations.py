"""The quota on changes by the controller: partitions created and deleted per second (KIP-599).

A burst may use up the tokens of the whole window, and one request more may overdraw the bucket. Requests in current
versions are then refused until the bucket has filled up to zero; older clients do not know that refusal, so their
requests are carried out, and their connections are muted.

Source: `ControllerMutationQuotaManager`, `StrictControllerMutationQuota`, `PermissiveControllerMutationQuota` in Apache
Kafka.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.reference_broker.security.quotas.client_quota import Client, ClientQuota
from kafkawire.reference_broker.security.quotas.rates import TokenBucket, Window
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["MutationQuota", "Permits"]


class _BucketMeter:
    """A bucket, which lacks what it lacks even if there is no limit for a while, as in Kafka."""

    __slots__ = ("_bucket", "_is_limited", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._bucket: TokenBucket | None = None
        self._is_limited = False

    @property
    def bucket(self) -> TokenBucket | None:
        return self._bucket if self._is_limited else None

    def limit(self, most: float | None) -> None:
        self._is_limited = most is not None
        if most is not None:
            if self._bucket is None:
                self._bucket = TokenBucket(self._window, most)
            self._bucket.per_second = most


class MutationQuota:
    """The quota of all clients.

    Args:
        window: see `Window`.

    Attributes:
        limits: the limits and meters.
    """

    def __init__(self, window: Window) -> None:
        self.limits = ClientQuota(lambda: _BucketMeter(window))

    def permits(self, client: Client, clock: Callable[[], int], *, is_strict: bool) -> Permits:
        """Return what a request may change.

        Args:
            client: the client that sent the request.
            clock: returns the time in milliseconds.
            is_strict: whether changes are refused while the quota is exceeded.
        """
        bucket = self.limits.meter_of(client, clock()).bucket if self.limits.is_enabled else None
        return Permits(bucket, clock, is_strict=is_strict)


class Permits:
    """What one request may change.

    Args:
        bucket: the tokens of the client; None if nothing limits it.
        clock: returns the time in milliseconds; changes may be made long after the request has arrived.
        is_strict: see `MutationQuota.permits`.
    """

    def __init__(self, bucket: TokenBucket | None, clock: Callable[[], int], *, is_strict: bool) -> None:
        self._bucket = bucket
        self._clock = clock
        self._is_strict = is_strict
        self._free_ms = 0

    def take(self, partitions: int) -> None:
        """Count partitions that are about to be created or deleted.

        Raises:
            BrokerError: THROTTLING_QUOTA_EXCEEDED; they must not be.
        """
        bucket = self._bucket
        if bucket is None:
            return
        now_ms = self._clock()
        if self._is_strict:
            if wait_ms := bucket.wait_ms(now_ms):
                self._free_ms = now_ms + wait_ms
                raise BrokerError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)  # without a text, as in Kafka
            bucket.take(partitions, now_ms)
        else:
            bucket.take(partitions, now_ms)
            if wait_ms := bucket.wait_ms(now_ms):
                self._free_ms = now_ms + wait_ms

    def throttle_ms(self, now_ms: int) -> int:
        """Return how long to throttle the client once its request has been answered, in ms."""
        return max(self._free_ms - now_ms, 0)
