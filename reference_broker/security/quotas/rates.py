"""How much of something happens per second, measured over samples, and a bucket of tokens that fills at a steady rate.

    samples   [ 7 s … 8 s )  [ 8 s … 9 s )  [ 9 s … now )        rate = sum of values / time since the oldest sample

Machines without a clock. The arithmetic is Kafka's, so that a client is throttled for as long as Kafka would throttle
it.

Source: `SampledStat`, `Rate`, `TokenBucket`, `QuotaUtils` in Apache Kafka.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

__all__ = ["MAX_THROTTLE_MS", "SampledRate", "TokenBucket", "Window", "throttle_ms"]

#: The longest time that a response can announce.
MAX_THROTTLE_MS: Final = 2**31 - 1

_MS_PER_SECOND: Final = 1_000


class Window(NamedTuple):
    """The time over which a rate is measured.

    Attributes:
        samples: the number of samples, such as `quota.window.num`.
        sample_ms: the duration of a sample, such as `quota.window.size.seconds`.
    """

    samples: int
    sample_ms: int


class _Sample:
    """The sum of the values in a part of the window."""

    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class SampledRate:
    """The rate of values per second.

    Args:
        window: see `Window`.
    """

    __slots__ = ("_current", "_samples", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        #: A ring with one sample more than the window has, since the oldest sample may overlap the window's start.
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add a value; a negative one takes back an earlier value."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        sample = self._samples[self._current]
        if now_ms - sample.start_ms >= self._window.sample_ms:
            sample = self._next(now_ms)
        sample.value += value
        sample.last_ms = now_ms

    def _next(self, now_ms: int) -> _Sample:
        self._current = (self._current + 1) % (self._window.samples + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]

    def rate(self, now_ms: int) -> float:
        """Return the number of values per second."""
        elapsed_ms = self.elapsed_ms(now_ms)
        return sum(sample.value for sample in self._samples) * _MS_PER_SECOND / elapsed_ms

    def elapsed_ms(self, now_ms: int) -> int:
        """Return the time by which the sum of the values is divided.

        While there are few samples, missing ones count as complete: otherwise, the first value would be a high rate.
        """
        samples, sample_ms = self._window
        lasts_ms = samples * sample_ms
        oldest_ms = now_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= lasts_ms:
                sample.reset(now_ms)
            oldest_ms = min(oldest_ms, sample.start_ms)
        elapsed_ms = now_ms - oldest_ms
        missing = max(samples - 1 - elapsed_ms // sample_ms, 0)
        return max(elapsed_ms + missing * sample_ms, 1)


def throttle_ms(rate: SampledRate, limit: float, now_ms: int, *, most_ms: int = MAX_THROTTLE_MS) -> int:
    """Return how long to wait until a rate is back within its limit, if nothing is recorded in the meantime.

    Args:
        rate: the rate, just recorded.
        limit: the allowed number of values per second.
        now_ms: the current time.
        most_ms: the longest time to return.

    Returns:
        The time in ms; 0 while the rate is within its limit. Kafka 3.9 also accepts limits of 0 or less: a negative one
        never throttles, and neither does 0, unless the time to return is limited.
    """
    value = rate.rate(now_ms)
    if not value > limit or limit < 0:
        return 0
    if limit == 0:
        return most_ms if most_ms < MAX_THROTTLE_MS else 0
    return _rounded((value - limit) / limit * rate.elapsed_ms(now_ms), most_ms)


class TokenBucket:
    """Tokens that are taken in bursts, and added at a steady rate up to the size of the window.

    Args:
        window: see `Window`; the bucket holds as many tokens as are added in that time.
        per_second: the number of tokens added per second.

    Attributes:
        per_second: see above.
    """

    __slots__ = ("_filled_ms", "_tokens", "_window", "per_second")

    def __init__(self, window: Window, per_second: float) -> None:
        self._window = window
        self.per_second = per_second
        self._tokens = math.inf  # a new bucket is full
        self._filled_ms = 0

    def tokens(self, now_ms: int) -> float:
        """Return the number of tokens; negative while too many have been taken."""
        added = self.per_second * (now_ms - self._filled_ms) / _MS_PER_SECOND
        self._tokens = min(self._most(), self._tokens + added)
        self._filled_ms = now_ms
        return self._tokens

    def take(self, count: float, now_ms: int) -> None:
        """Take tokens, whether or not the bucket has them."""
        self._tokens = min(self._most(), self.tokens(now_ms) - count)

    def wait_ms(self, now_ms: int) -> int:
        """Return the time in ms until the bucket no longer lacks tokens; 0 if it lacks none."""
        tokens = self.tokens(now_ms)
        if tokens >= 0 or self.per_second <= 0:
            return 0
        return _rounded(-tokens / self.per_second * _MS_PER_SECOND, MAX_THROTTLE_MS)

    def _most(self) -> float:
        samples, sample_ms = self._window
        return samples * sample_ms * self.per_second / _MS_PER_SECOND


def _rounded(time_ms: float, most_ms: int) -> int:
    """Return a time in whole milliseconds, rounded as in Java."""
    return most_ms if time_ms >= most_ms else math.floor(time_ms + 0.5)
