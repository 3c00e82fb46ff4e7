"""The machine of a producer's transactions, which begins them, adds to them and ends them.

Transactions run one at a time: ready → open → committing or aborting → ready. A prepared transaction outlives its
producer. An error on the way either dooms the transaction (it can only be aborted) or is fatal (the producer is
permanently unusable). The router repeats each request until its deadline. Only the request to end a transaction is
repeated after that, until the coordinator confirms it, even if no caller is still waiting.

Source: Apache Kafka, `TransactionManager`; KIP-98, KIP-360 (epochs), KIP-447 (groups), KIP-890 (transaction version 2).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from kafkawire.sdk.client.options import ProducerOptions
from kafkawire.sdk.errors import BrokerError, Closed, KafkaWireError, LocalProtocolError, TransactionAborted
from kafkawire.sdk.groups.protocol import GroupMetadata
from kafkawire.sdk.producer.accumulator import Accumulator
from kafkawire.sdk.producer.identity import ProducerId, ProducerIdentity
from kafkawire.sdk.producer.sender import Sender
from kafkawire.sdk.producer.transactions import requests
from kafkawire.sdk.producer.transactions.errors import (
    NOT_COMMITTED,
    NOT_OPEN,
    OUTSIDE,
    SOON_AFTER_THE_LAST,
    STRADDLED,
    aborted,
    code_of,
    fenced,
    is_fatal,
    late,
)
from kafkawire.sdk.producer.transactions.partitions import TransactionPartitions
from kafkawire.sdk.producer.transactions.prepared import PreparedTransaction
from kafkawire.sdk.producer.transactions.states import (
    ABORTABLE,
    ENDS,
    GOES_WELL,
    RESTS,
    TRANSACTION_EDGES,
    State,
)
from kafkawire.sdk.producer.transactions.waiters import TransactionWaiters
from kafkawire.sdk.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from kafkawire.sdk.protocol.messages.end_txn import EndTxnResponse
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import NO_PRODUCER_ID, TRANSACTION_VERSION_FEATURE, CoordinatorType
from kafkawire.sdk.protocol.tables.enums.transaction_version import TransactionVersion
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Answer, Call, Coordinator, Target
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.driver_interface import Versions
from kafkawire.sdk.transport.promise import Promise

__all__ = ["State", "Transactions"]

logger = logging.getLogger("kafkawire.producer")


class _Course:
    """The course of one transaction so far; each transaction gets a new object, so no state is carried over.

    Attributes:
        groups: the groups whose offsets are committed with the transaction.
        is_adding: whether partitions are being added.
        is_uncertain: whether the coordinator may have made additions that it did not confirm.
        is_lost: whether the coordinator has ended it without being asked.
        reason: why it cannot be committed; None while it can.
        was_to_commit: whether the application has requested a commit.
    """

    __slots__ = ("groups", "is_adding", "is_lost", "is_uncertain", "reason", "was_to_commit")

    def __init__(self) -> None:
        self.groups: set[str] = set()
        self.is_adding = self.is_uncertain = self.is_lost = False
        self.reason: TransactionAborted | None = None
        self.was_to_commit = False


class Transactions:
    """The transactions of one producer.

    Args:
        options: the producer's options.
        router: sends the requests.
        accumulator: collects the records.
        identity: the producer id.
        sender: sends the batches.
        partitions: through this object, the sender learns which batches may be sent.

    Attributes:
        state: the state of the current transaction.
        error: why no further transaction can begin; None while one can.
    """

    def __init__(
        self,
        options: ProducerOptions,
        router: Router,
        accumulator: Accumulator,
        identity: ProducerIdentity,
        sender: Sender,
        partitions: TransactionPartitions,
    ) -> None:
        self._options = options
        self._router = router
        self._accumulator = accumulator
        self._identity = identity
        self._sender = sender
        self._partitions = partitions
        self._id = partitions.transactional_id
        self._aborted = partial(aborted, self._id, options.transaction_timeout_ms)
        self._coordinator = Coordinator(CoordinatorType.TRANSACTION, self._id)
        self._waiters = TransactionWaiters()
        self._course = _Course()
        self._calls = 0
        self.state = State.READY
        self.error: KafkaWireError | None = None
        partitions.refusal = OUTSIDE
        accumulator.refuse(OUTSIDE)

    # Called by the producer; errors go to the caller.

    def begin(self, promise: Promise[None], now_ms: int) -> None:
        """Begin a transaction; the previous one must have ended."""
        self._check()
        if self.state is not State.READY:
            raise LocalProtocolError(f"a transaction is {self.state.value}: commit or abort it first")
        self._enter(State.OPEN)
        self._course = _Course()
        self._partitions.begin(self._identity.transaction_version)
        self._accumulator.refuse(None)
        promise.keep(None)

    def await_end(self, timeout_ms: int, promise: Promise[None], now_ms: int) -> None:
        """Keep the promise once no transaction is being ended."""
        if self.state in ENDS:
            self._waiters.add(promise, timeout_ms, now_ms, hears=False)
        else:
            promise.keep(None)

    def prepare(self, timeout_ms: int, promise: Promise[None], now_ms: int) -> None:
        """Send all buffered records, and keep the promise once all are stored, with the transaction still open."""
        self._check()
        if self.state is not State.OPEN:
            doomed = self._course.reason if self.state is State.DOOMED else None
            raise doomed.again() if doomed is not None else LocalProtocolError(f"prepare: {self._what()}")
        self._enter(State.PREPARING)
        self._accumulator.refuse(OUTSIDE)
        self._sender.hurry(now_ms)
        self._waiters.add(promise, timeout_ms, now_ms, hears=True)

    def prepared(self) -> PreparedTransaction | None:
        """Return the data needed to end the prepared transaction; None if the transaction is empty."""
        return PreparedTransaction(self._id, self._producer(), self._partitions.version) if self._has_joined else None

    def commit(self, timeout_ms: int, promise: Promise[None], now_ms: int) -> None:
        """Send all buffered records and commit; if that is impossible, abort everything and fail the promise.

        Another call before the next transaction begins reports the outcome of the commit.
        """
        self._check()
        if self.state in (State.OPEN, State.PREPARED):
            self._enter(State.COMMITTING)
            self._accumulator.refuse(OUTSIDE)
            self._sender.hurry(now_ms)
        elif self.state is State.DOOMED:
            self._enter(State.ABORTING)
        elif not self._course.was_to_commit:
            raise LocalProtocolError(f"commit: {self._what()}")
        self._course.was_to_commit = True
        self._waiters.add(promise, timeout_ms, now_ms, hears=True)
        if self.state is State.READY:
            self._waiters.ended(self._course.reason)

    def abort(self, timeout_ms: int, promise: Promise[None], now_ms: int) -> None:
        """Fail unsent records, and abort."""
        self._check()
        if self.state not in ABORTABLE:
            raise LocalProtocolError(f"abort: {self._what()}")
        self._accumulator.refuse(OUTSIDE)
        if self.state is not State.DOOMED:
            self._course.reason = self._aborted()  # raised for callers that wait until the transaction is prepared
            self._drop(self._course.reason, now_ms)
        self._enter(State.ABORTING)
        self._waiters.add(promise, timeout_ms, now_ms, hears=False)

    def finish(self, timeout_ms: int, promise: Promise[None], now_ms: int) -> None:
        """Abort a transaction that is open and not prepared, and keep the promise once none is being ended."""
        if self.state in (State.OPEN, State.PREPARING, State.DOOMED):
            self.abort(timeout_ms, promise, now_ms)
        else:
            self.await_end(timeout_ms, promise, now_ms)

    def send_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: GroupMetadata,
        timeout_ms: int,
        promise: Promise[None],
        now_ms: int,
    ) -> None:
        """Commit a group's offsets with the transaction; an error dooms it."""
        self._check()
        if self.state is not State.OPEN:
            raise (
                self._course.reason if self.state is State.DOOMED and self._course.reason is not None else OUTSIDE
            ).again()
        if not offsets:  # the group would not be added, and brokers reject the commit of an empty transaction
            promise.keep(None)
            return
        deadline_ms = now_ms + timeout_ms
        if self._partitions.joins_by_itself or group.group_id in self._course.groups:
            self._commit_offsets(offsets, group, deadline_ms, promise, now_ms)
            return

        def added(now_ms: int) -> None:
            self._course.groups.add(group.group_id)
            if self.state in GOES_WELL:
                self._commit_offsets(offsets, group, deadline_ms, promise, now_ms)
            else:
                promise.fail(self._course.reason or self._aborted())

        producer = self._producer()
        self._call(
            self._coordinator,
            lambda _: requests.add_offsets(self._id, producer, group.group_id),
            AddOffsetsToTxnResponse,
            deadline_ms,
            now_ms,
            requests.add_offsets_error,
            added,
            promise,
        )

    # Machine.

    def poll(self, now_ms: int) -> None:
        """Do the work that is due."""
        self._waiters.expire(now_ms, partial(self._late, now_ms))
        if self.state in RESTS:
            return
        if self._identity.error is not None:
            self._end_for_good(self._identity.error, now_ms)
        elif self.state is State.RENEWING:
            if self._identity.current is not None:
                self._ended(now_ms)
        else:
            failed = self._accumulator.failed
            if self.state in GOES_WELL and self._takes_batches and failed is not None and failed.error is not None:
                self._doom(failed.error, now_ms)
            if self.state in GOES_WELL and self._partitions.wanted and not self._course.is_adding:
                self._add_partitions(now_ms)
            has_left = self._sender.is_settled if self.state in GOES_WELL else self._sender.is_silent
            if self.state in ENDS and has_left and not self._calls:
                self._end(now_ms)
            elif self.state is State.PREPARING and has_left and not self._calls:
                self._drop(STRADDLED, now_ms)
                self._enter(State.PREPARED)
                self._waiters.ended(None)

    def _late(self, now_ms: int, timeout_ms: int) -> KafkaWireError:
        return late(self._id, timeout_ms, self.state.value, self._router.throttling(now_ms - timeout_ms))

    def due_ms(self, now_ms: int) -> int | None:
        """Return when to poll again if nothing happens before then."""
        return self._waiters.due_ms()

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        """Stop the machine, because the client has ended."""
        self.error = self.error or error
        self._enter(State.FATAL)
        self._waiters.fail(error)

    # Adding to the transaction.

    def _add_partitions(self, now_ms: int) -> None:
        queues, producer = self._partitions.take_wanted(), self._producer()
        partitions = [queue.partition for queue in queues]
        self._course.is_adding = True

        def added(now_ms: int) -> None:
            self._course.is_adding = False
            self._partitions.add(queues)

        self._call(
            self._coordinator,
            lambda versions: requests.add_partitions(self._id, producer, partitions, versions),
            AddPartitionsToTxnResponse,
            now_ms + self._options.api_timeout_ms,
            now_ms,
            requests.add_partitions_error,
            added,
            pauses={} if self._partitions.joined else SOON_AFTER_THE_LAST,
        )

    def _commit_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: GroupMetadata,
        deadline_ms: int,
        promise: Promise[None],
        now_ms: int,
    ) -> None:
        self._course.groups.add(group.group_id)
        producer, joins_by_itself = self._producer(), self._partitions.joins_by_itself

        def request(versions: Versions) -> tuple[Message, int]:
            return requests.commit_offsets(
                self._id, producer, group, offsets, versions, joins_by_itself=joins_by_itself
            )

        self._call(
            Coordinator(CoordinatorType.GROUP, group.group_id),
            request,
            TxnOffsetCommitResponse,
            deadline_ms,
            now_ms,
            requests.commit_offsets_error,
            lambda _: promise.keep(None),
            promise,
        )

    def _call(
        self,
        target: Target,
        request: Callable[[Versions], tuple[Message, int | None]],
        response: type[Answer],
        deadline_ms: int,
        now_ms: int,
        check: Callable[[Answer], KafkaWireError | None],
        on_success: Callable[[int], None],
        promise: Promise[None] | None = None,
        pauses: Mapping[ErrorCode, int] | None = None,
    ) -> None:
        """Make a call that adds to the transaction; an error dooms it and fails the promise."""

        def done(call: Call[Answer], now_ms: int) -> None:
            self._calls -= 1
            error = call.error
            if error is None:
                on_success(now_ms)
                return
            if not isinstance(error, Closed):
                if not isinstance(error, BrokerError) or error.retriable:
                    self._course.is_uncertain = True  # the coordinator may have acted on the request
                self._doom(error, now_ms)
            if promise is not None:
                promise.fail(self.error or error)

        self._calls += 1
        call = Call(target, request, response, deadline_ms, done, check=check, pauses=pauses or {})
        self._router.submit(call, now_ms)

    # Errors.

    def _doom(self, error: KafkaWireError, now_ms: int) -> None:
        """Abort the transaction because of an error, or give up if aborting would not help."""
        if is_fatal(error):
            self._end_for_good(error, now_ms)
            return
        if self.state not in GOES_WELL:
            return
        self._course.reason = self._aborted(error)
        logger.warning("%s", self._course.reason)
        if self.state is State.COMMITTING:
            self._enter(State.ABORTING)
        else:
            self._enter(State.DOOMED)
            self._accumulator.refuse(self._course.reason)
            self._waiters.ended(self._course.reason)
        self._drop(self._course.reason, now_ms)

    @property
    def _takes_batches(self) -> bool:
        """Whether batches may still be added to the transaction and affect its outcome."""
        return self._partitions.refusal is None

    def _drop(self, error: KafkaWireError, now_ms: int) -> None:
        """Stop sending batches, and fail unsent batches and records that another thread is still sending."""
        self._partitions.refusal = error
        # The term ends first: the sender either already knows a batch, or gives it up on learning of it.
        self._accumulator.end_term(error)
        self._sender.abandon(error, now_ms)

    def _end_for_good(self, error: KafkaWireError, now_ms: int) -> None:
        """Give up for good: no other transaction can begin."""
        error = fenced(self._id, self._options.transaction_timeout_ms, error)
        error.fatal = True
        logger.error("no further transaction is possible: %s", error)
        self._accumulator.refuse(error)
        self.fail(error, now_ms)
        self._drop(error, now_ms)

    # The end.

    def _end(self, now_ms: int) -> None:
        """Tell the coordinator to end the transaction, unless the coordinator cannot know of it."""
        if self._takes_batches:
            self._drop(STRADDLED, now_ms)
        if not (self._has_joined or self._course.is_uncertain):
            self._over(now_ms)
            return
        commits, producer = self.state is State.COMMITTING, self._producer()
        raises_epoch = self._partitions.joins_by_itself

        def request(versions: Versions) -> tuple[Message, int]:
            self._identity.transaction_version = versions.feature_level(TRANSACTION_VERSION_FEATURE)
            return requests.end_transaction(self._id, producer, versions, commits=commits, raises_epoch=raises_epoch)

        self._calls += 1
        call = Call(
            self._coordinator,
            request,
            EndTxnResponse,
            now_ms + self._options.api_timeout_ms,
            partial(self._end_answered, commits),
            check=requests.end_transaction_error,
        )
        self._router.submit(call, now_ms)

    @property
    def _has_joined(self) -> bool:
        return bool(self._partitions.joined or self._course.groups)

    def _end_answered(self, commits: bool, call: Call[EndTxnResponse], now_ms: int) -> None:
        self._calls -= 1
        error, code = call.error, code_of(call.error)
        if error is None:
            answer = call.answer
            if answer.producer_id != NO_PRODUCER_ID:
                self._identity.current = ProducerId(answer.producer_id, answer.producer_epoch, True)
            self._over(now_ms)
        elif error.retriable:
            logger.warning("transactional id %s: not ended yet, trying again: %s", self._id, error)
        elif commits and code in NOT_COMMITTED:
            self._doom(error, now_ms)
        elif code in NOT_OPEN:
            self._course.is_lost = self._has_joined
            self._over(now_ms)
        elif not isinstance(error, Closed):
            self._end_for_good(error, now_ms)

    def _over(self, now_ms: int) -> None:
        """Finish, and request a new epoch if batches may be missing or the next transaction's version differs."""
        is_version_1 = not self._partitions.joins_by_itself
        is_upgraded = is_version_1 and self._identity.transaction_version >= TransactionVersion.TV_2
        joined = [queue.sequences for queue in self._partitions.joined]
        has_gap = is_version_1 and any(each.needs_epoch and not each.is_forgotten for each in joined)
        if self._course.is_lost or is_upgraded or has_gap:
            self._enter(State.RENEWING)
            self._identity.renew()
            self._identity.poll(now_ms)
        else:
            self._ended(now_ms)

    def _ended(self, now_ms: int) -> None:
        self._enter(State.READY)
        self._accumulator.refuse(OUTSIDE)
        self._drop(STRADDLED, now_ms)
        self._accumulator.failed = self._accumulator.unobserved = None  # the caller of commit gets the error
        self._waiters.ended(self._course.reason)

    def _enter(self, state: State) -> None:
        self.state = TRANSACTION_EDGES.follow(self.state, state)

    def _what(self) -> str:
        return "no transaction is open" if self.state is State.READY else f"the transaction is {self.state.value}"

    def _producer(self) -> ProducerId:
        assert self._identity.current is not None, "a transaction begins once there is an id"
        return self._identity.current

    def _check(self) -> None:
        if self.error is not None:
            self._accumulator.refuse(self.error)
            raise self.error.again()
