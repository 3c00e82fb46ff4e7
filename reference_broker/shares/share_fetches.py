"""Share fetches: they acquire records for a member of a share group, and wait while too few are available.

A fetch tries its partitions in turn, beginning with another one in each request of a session. It waits for new records
in the logs, for released records, and for share partitions that are being loaded.

Source: `DelayedShareFetch`, `SharePartitionManager.processShareFetch`, `ShareFetchUtils` in Apache Kafka; KIP-932.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from kafkawire.reference_broker.replicas.replica import Replica
from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.shares.acquisition import Fetched, Wanted
from kafkawire.reference_broker.shares.fetched_batches import FetchedBatch, fetched_batches, sliced
from kafkawire.reference_broker.shares.limits import ShareLimits
from kafkawire.reference_broker.shares.share_partition import LoadState, SharePartition
from kafkawire.reference_broker.shares.share_partitions import SharePartitions
from kafkawire.reference_broker.shares.share_state import SharePartitionKey
from kafkawire.reference_broker.storage.disk.disk import FileSlice
from kafkawire.reference_broker.storage.segments.search_preparation import NotPrepared
from kafkawire.reference_broker.storage.services import storage_error
from kafkawire.reference_broker.work.timers import Timer, Timers
from kafkawire.sdk.errors import BrokerError, DecodeError
from kafkawire.sdk.protocol.messages.share_fetch import ShareFetchResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.transaction_index import AbortedTransaction

__all__ = ["ShareFetch", "ShareFetchRequested", "ShareFetches"]

PartitionData = ShareFetchResponse.PartitionData


class ShareFetchRequested(NamedTuple):
    """What a member asks for.

    Attributes:
        group_id, member_id: the member.
        partitions: the partitions to fetch, with the names of their topics.
        max_wait_ms, min_bytes, max_bytes, max_records, batch_size: as in ShareFetch.
        is_limited: see `Wanted`.
    """

    group_id: str
    member_id: str
    partitions: Sequence[tuple[SharePartitionKey, str]]
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    is_limited: bool


class _Read(NamedTuple):
    """What was read from a partition.

    Attributes:
        offset: the offset from which the partition was read.
        region: the records; None if there are none.
        batches: their batches.
        aborted: see `Fetched`.
        has_more: whether the log has more than was read.
        error: the error; None if there is none.
    """

    offset: int
    region: FileSlice | None = None
    batches: Sequence[FetchedBatch] = ()
    aborted: Sequence[AbortedTransaction] = ()
    has_more: bool = False
    error: BrokerError | None = None


#: Gets the data of the partitions that the fetch has something to say about.
Answered = Callable[[dict[SharePartitionKey, PartitionData]], None]


class ShareFetches:
    """The share fetches that are waiting for records.

    Args:
        limits: see `ShareLimits`.
        shares: the share partitions.
        replicas: the replicas on this broker.
        timers: the broker's timers.
    """

    def __init__(self, limits: ShareLimits, shares: SharePartitions, replicas: Replicas, timers: Timers) -> None:
        self._limits = limits
        self._shares = shares
        self._replicas = replicas
        self._timers = timers
        #: The waiting fetches of each share partition, in the order of their arrival.
        self._waiting: dict[SharePartitionKey, dict[ShareFetch, None]] = {}
        self._woken: dict[ShareFetch, None] = {}
        self._wake_up: Timer | None = None
        shares.on_change = self._changed

    def __len__(self) -> int:
        return len({fetch for fetches in self._waiting.values() for fetch in fetches})

    def begin(self, requested: ShareFetchRequested, answered: Answered, now_ms: int) -> ShareFetch:
        """Fetch; `answered` is called once, immediately or later, unless the fetch is cancelled."""
        fetch = ShareFetch(requested, answered, self._limits, self._shares, self._replicas, self._timers, self)
        fetch.begin(now_ms)
        return fetch

    def wait(self, fetch: ShareFetch, keys: Sequence[SharePartitionKey]) -> None:
        """Wake a fetch when one of its share partitions changes."""
        for key in keys:
            self._waiting.setdefault(key, {})[fetch] = None

    def wait_no_more(self, fetch: ShareFetch, keys: Sequence[SharePartitionKey]) -> None:
        """Forget a fetch."""
        self._woken.pop(fetch, None)
        for key in keys:
            fetches = self._waiting.get(key, {})
            fetches.pop(fetch, None)
            if not fetches:
                self._waiting.pop(key, None)

    def wake(self, fetch: ShareFetch) -> None:
        """Let a fetch try again soon."""
        self._woken[fetch] = None
        if self._wake_up is None:
            self._wake_up = self._timers.soon(self._try_woken)

    def _changed(self, key: SharePartitionKey) -> None:
        for fetch in self._waiting.get(key, ()):
            self.wake(fetch)

    def _try_woken(self, now_ms: int) -> None:
        self._wake_up = None
        woken, self._woken = self._woken, {}
        for fetch in woken:
            if not fetch.is_over:
                fetch.attempt(now_ms)


class ShareFetch:
    """One fetch.

    Args:
        requested: see `ShareFetchRequested`.
        answered: see `ShareFetches.begin`.
        limits, shares, replicas, timers: see `ShareFetches`.
        fetches: wakes the fetch.

    Attributes:
        is_over: whether the fetch has been answered or cancelled.
    """

    def __init__(
        self,
        requested: ShareFetchRequested,
        answered: Answered,
        limits: ShareLimits,
        shares: SharePartitions,
        replicas: Replicas,
        timers: Timers,
        fetches: ShareFetches,
    ) -> None:
        self._requested = requested
        self._answered = answered
        self._shares = shares
        self._replicas = replicas
        self._timers = timers
        self._fetches = fetches
        self._is_committed = limits.is_committed(requested.group_id)
        self._partitions: dict[SharePartitionKey, SharePartition] = {}
        self._names = dict(requested.partitions)
        self._errors: dict[SharePartitionKey, BrokerError] = {}
        self._watched: list[Replica] = []
        self._deadline: Timer | None = None
        self.is_over = False

    # The life of a fetch.

    def begin(self, now_ms: int) -> None:
        """Find or create the share partitions, and try to acquire records."""
        requested = self._requested
        if not requested.partitions or not requested.max_records or not requested.max_bytes:
            self._answer({})
            return
        for key in self._names:
            self._find(key)
        if not self.attempt(now_ms):
            self._wait(now_ms)

    def _find(self, key: SharePartitionKey) -> None:
        """Find or create a share partition, and load it unless it has been."""
        try:
            share = self._shares.create(key, self._names[key])
        except BrokerError as error:
            self._errors[key] = error
            return
        self._partitions[key] = share
        if share.state is LoadState.EMPTY:
            share.load(partial(self._loaded, key))

    def _loaded(self, key: SharePartitionKey, error: BrokerError | None) -> None:
        """Note that a share partition has been loaded for the first fetch that asked for it."""
        if error is not None:
            self._errors[key] = error
            self._shares.drop(key)
        if self._shares.get(key) is not None:
            self._shares.on_change(key)
        elif not self.is_over:
            self._fetches.wake(self)

    def _wait(self, now_ms: int) -> None:
        self._deadline = self._timers.at(now_ms + max(self._requested.max_wait_ms, 0), self._finish)
        self._fetches.wait(self, list(self._partitions))
        for key in self._partitions:
            replica = self._replicas.get(self._names[key], key.partition)
            if replica is not None:
                replica.watch(self._more, is_committed=self._is_committed)
                self._watched.append(replica)

    def _more(self, size_bytes: int) -> None:
        """Try again, since a log has more records."""
        self._fetches.wake(self)

    def cancel(self) -> None:
        """Stop waiting, because the client has disconnected."""
        self.is_over = True
        if self._deadline is not None:
            self._deadline.cancel()
        self._fetches.wait_no_more(self, list(self._partitions))
        for replica in self._watched:
            replica.unwatch(self._more)
        self._watched.clear()

    def _finish(self, now_ms: int) -> None:
        """Answer at the end of the wait, with whatever is available."""
        self._acquire(self._read_all(), now_ms)

    def attempt(self, now_ms: int) -> bool:
        """Answer if enough records can be acquired, or nothing can come; return whether the fetch is over."""
        for key, share in list(self._partitions.items()):
            if share.state is LoadState.FENCED and key not in self._errors:
                self._find(key)
        if len(self._errors) == len(self._names):
            self._answer({})
            return True
        reads = self._read_all()
        if reads and (any(read.error is not None for read in reads.values()) or self._is_enough(reads)):
            self._acquire(reads, now_ms)
            return True
        return False

    def _is_enough(self, reads: dict[SharePartitionKey, _Read]) -> bool:
        """Return whether there are enough bytes, assuming that all of them can be acquired."""
        size_bytes = sum(len(read.region or b"") for read in reads.values())
        return size_bytes >= self._requested.min_bytes or any(read.has_more for read in reads.values())

    # Reading.

    def _read_all(self) -> dict[SharePartitionKey, _Read]:
        """Read the partitions from which records can be acquired."""
        shares = {
            key: share for key, share in self._partitions.items() if key not in self._errors and share.can_acquire
        }
        limits = self._bytes_of_partitions(len(shares))
        left = self._requested.max_bytes
        reads: dict[SharePartitionKey, _Read] = {}
        has_records = False
        for (key, share), limit in zip(shares.items(), limits, strict=True):
            read = self._read(key, share.next_fetch_offset(), min(limit, left), at_least_one=not has_records)
            size_bytes = len(read.region or b"")
            has_records |= size_bytes > 0
            left = max(left - size_bytes, 0)
            reads[key] = read
        return reads

    def _bytes_of_partitions(self, count: int) -> list[int]:
        """Divide the maximum number of bytes among partitions; Kafka gives the rest to a random one."""
        if not count:
            return []
        each, rest = divmod(self._requested.max_bytes, count)
        if not each:
            return [1] * rest + [0] * (count - rest)
        return [each + rest] + [each] * (count - 1)

    def _read(self, key: SharePartitionKey, offset: int, max_bytes: int, *, at_least_one: bool) -> _Read:
        try:
            replica = self._replicas.leader(self._names[key], key.partition)
            log = replica.log
            found = log.read(offset, max_bytes, at_least_one=at_least_one, is_committed=self._is_committed)
            if found.records is None or not found.is_first_whole:
                return _Read(offset)
            batches = fetched_batches(found.records)
        except NotPrepared:
            return _Read(offset)
        except OSError as error:
            return _Read(offset, error=storage_error(error))
        except DecodeError as error:
            return _Read(offset, error=BrokerError(ErrorCode.CORRUPT_MESSAGE, str(error)))
        except BrokerError as error:
            return _Read(offset, error=error)
        readable_to = log.readable_to(is_committed=self._is_committed)
        has_more = bool(batches) and batches[-1].last_offset + 1 < readable_to
        return _Read(offset, found.records, batches, found.aborted or (), has_more)

    # Acquiring.

    def _acquire(self, reads: dict[SharePartitionKey, _Read], now_ms: int) -> None:
        """Acquire what was read, and answer."""
        requested = self._requested
        found: dict[SharePartitionKey, PartitionData] = {}
        left = requested.max_records
        for key, read in reads.items():
            data = found[key] = PartitionData(key.partition, records=b"")
            if read.error is not None:
                self._tell(key, data, read.error)
                continue
            if read.region is None:
                continue
            wanted = Wanted(requested.member_id, left, requested.is_limited, requested.batch_size)
            fetched = Fetched(read.offset, read.batches, read.aborted)
            ranges, count = self._partitions[key].acquire(wanted, fetched, now_ms)
            left -= count
            if ranges:
                data.acquired_records = [ShareFetchResponse.AcquiredRecords(*part) for part in ranges]
                first, last = ranges[0].first_offset, ranges[-1].last_offset
                data.records = sliced(read.region, read.batches, first, last)  # type: ignore[assignment]  # see Fetch
        self._answer(found)

    def _tell(self, key: SharePartitionKey, data: PartitionData, error: BrokerError) -> None:
        """Put an error into the response, unless the share partition can follow the start of the log."""
        share = self._partitions[key]
        replica = self._replicas.get(self._names[key], key.partition)
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE and replica is not None:
            share.begin_at(replica.log.log_start_offset)
        else:
            data.error_code = error.code
            self._shares.failed(key, error)

    def _answer(self, found: dict[SharePartitionKey, PartitionData]) -> None:
        self.cancel()
        for key, error in self._errors.items():
            found[key] = PartitionData(key.partition, error.code, records=b"")
        self._answered(found)
