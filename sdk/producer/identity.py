"""The producer id and epoch of one producer.

An idempotent producer asks any broker for an id once, and raises the epoch itself. A transactional producer asks its
coordinator, which ends the open transaction of an earlier producer with the same transactional id and fences that
producer; only the coordinator raises the epoch.

The router repeats the request for `timeout_ms`. This module decides what happens after that. Only an explicit refusal
means that the cluster issues no ids. Any other error, such as a rejected login, can be temporary: after a pause,
another series of attempts begins, while records wait. A denial is an explicit refusal that an administrator can end: a
producer that does not require an id sends without one in the meantime.

Source: Apache Kafka, `TransactionManager`, `Sender`; KIP-98 (InitProducerId), KIP-360 (epochs raised by the client).
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from kafkawire.sdk.errors import BrokerError, Closed, KafkaWireError, UnsupportedVersion
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.options import INT32_MAX
from kafkawire.sdk.producer.transactions.errors import fenced, forgotten
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TRANSACTION_VERSION_FEATURE,
    CoordinatorType,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import ANY_BROKER, Call, Coordinator
from kafkawire.sdk.routing.requests import carries
from kafkawire.sdk.routing.retry import Attempts, Backoff, is_denial
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.driver_interface import Versions
from kafkawire.sdk.transport.promise import Promise

__all__ = ["MAX_EPOCH", "ProducerId", "ProducerIdentity"]

logger = logging.getLogger("kafkawire.producer")

#: Epochs are int16, and the highest one is reserved for the broker: after this one, the producer requests a new
#: producer id.
MAX_EPOCH: Final = 2**15 - 2

#: From this epoch on, a coordinator may assign a new producer id instead of raising the epoch, since it may have raised
#: the epoch twice.
_LAST_EPOCHS: Final = MAX_EPOCH - 1

#: The errors from a broker that issues no producer ids at all, or none to this user.
_RULES_OUT: Final = frozenset({ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})


#: What grants producer ids, as `CLUSTER_AUTHORIZATION_FAILED` suggests something else (KIP-679).
_NEEDED: Final = "an id requires an ACL for WRITE on any topic, or for IDEMPOTENT_WRITE on the cluster"


class ProducerId(NamedTuple):
    """The producer of a batch, as brokers know it.

    Attributes:
        number: the id assigned by the cluster.
        epoch: increases whenever the sequence numbers of a partition restart.
        is_transactional: whether the producer's batches belong to transactions.
    """

    number: int
    epoch: int
    is_transactional: bool = False


class ProducerIdentity:
    """The machine that obtains the producer id of one producer.

    Args:
        router: sends the requests.
        backoff: the pauses between series of attempts.
        timeout_ms: the time limit of one series of attempts, after which another follows.
        wanted: True to require an id, False to use none, None to do without one if the cluster issues none.
        transactional_id: the producer's transactional id; None without transactions.
        transaction_timeout_ms: the time after which the coordinator aborts a transaction.

    Attributes:
        current: the id and epoch of new batches; None while the producer has none.
        enabled: whether batches need an id; False as long as the producer is denied one that it does not require.
        ready: settled once the producer has its first id, or needs none.
        trouble: why the producer has no id yet; None if it has one, or if nothing has gone wrong.
        transaction_version: the level of the feature transaction.version that the coordinator last reported.
    """

    def __init__(
        self,
        router: Router,
        backoff: Backoff,
        timeout_ms: int,
        wanted: bool | None,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = INT32_MAX,
    ) -> None:
        self._router = router
        self._timeout_ms = timeout_ms
        self._insists = wanted is True
        self._transactional_id = transactional_id
        self._transaction_timeout_ms = transaction_timeout_ms
        self._attempts = Attempts(backoff)
        self._lines = LogLimit(logger)
        self._asking = False
        self._is_denied = False
        self._replaced: ProducerId | None = None
        self._refused: KafkaWireError | None = None
        self.current: ProducerId | None = None
        self.enabled = wanted is not False
        self.transaction_version = 0
        self.trouble: KafkaWireError | None = None
        self.ready: Promise[None] = Promise()
        if not self.enabled:
            self.ready.keep(None)

    @property
    def error(self) -> KafkaWireError | None:
        """Why the producer will never get an id; None if it still can."""
        return self._refused

    @property
    def is_lacking(self) -> bool:
        """Whether batches need an id and the producer has none."""
        return self.enabled and self.current is None

    def poll(self, now_ms: int) -> None:
        """Request an id if one is needed."""
        is_wanted = self.enabled or self._is_denied
        if is_wanted and self.current is None and not self._asking and self._refused is None:
            if now_ms < self._attempts.not_before_ms:
                return
            self._ask(now_ms)

    def due_ms(self, now_ms: int) -> int | None:
        """Return when to poll again if nothing happens before then."""
        not_before_ms = self._attempts.not_before_ms
        return not_before_ms if not_before_ms > now_ms else None

    def raise_epoch(self) -> bool:
        """Move to the next epoch, or to a new id after the last epoch; return whether the producer may do so."""
        if self._transactional_id is not None:
            return False
        if self.current is not None:
            number, epoch, _ = self.current
            self.current = ProducerId(number, epoch + 1) if epoch < MAX_EPOCH else None
        return True

    def renew(self) -> None:
        """Ask the coordinator to raise the epoch; the producer has no id until then."""
        if self.current is not None:  # otherwise the epoch is already being raised
            self._replaced, self.current = self.current, None

    def fail(self, error: KafkaWireError) -> None:
        """Give up, because the client has ended."""
        self._refused = error
        self.ready.fail(error)

    def _is_another(self, given: ProducerId) -> bool:
        """Return whether the coordinator forgot the producer id and assigned a new one instead of raising the epoch."""
        replaced = self._replaced
        return replaced is not None and given.number != replaced.number and replaced.epoch < _LAST_EPOCHS

    def _ask(self, now_ms: int) -> None:
        self._asking = True
        name = self._transactional_id
        call = Call(
            ANY_BROKER if name is None else Coordinator(CoordinatorType.TRANSACTION, name),
            self._request,
            InitProducerIdResponse,
            now_ms + self._timeout_ms,
            self._answered,
            check=self._checked,
        )
        self._router.submit(call, now_ms)

    def _request(self, versions: Versions) -> tuple[Message, int]:
        version = versions.version_for(InitProducerIdRequest)
        self.transaction_version = versions.feature_level(TRANSACTION_VERSION_FEATURE)
        number, epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        if self._replaced is not None:
            if not carries(InitProducerIdRequest, "producer_id", version):
                text = "the coordinator cannot raise the epoch of a running producer; Apache Kafka 2.5 and later can"
                raise UnsupportedVersion(f"transactional id {self._transactional_id}: {text}")
            number, epoch, _ = self._replaced
        return InitProducerIdRequest(self._transactional_id, self._transaction_timeout_ms, number, epoch), version

    def _checked(self, response: InitProducerIdResponse) -> BrokerError | None:
        """Return the error in a response; None if the response has an id."""
        if response.error_code == ErrorCode.NONE:
            return None
        name = self._transactional_id
        what = "producer id" if name is None else f"producer id for transactional id {name}"
        if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            what = f"{what}: {_NEEDED}"
        error = BrokerError(response.error_code, what)
        if self.enabled:
            self.trouble = error
        return error

    def _answered(self, call: Call[InitProducerIdResponse], now_ms: int) -> None:
        self._asking = False
        error = call.error
        if error is None:
            self._take(call.answer)
        elif self._is_final(error):
            self._do_without(error, now_ms)
        elif not self.enabled:
            self._attempts.failed(error, now_ms)
        else:
            self.trouble = error
            (self._attempts.denied if is_denial(error) else self._attempts.failed)(error, now_ms)
            self._lines.warning("trouble", now_ms, "there is no producer id yet; asking again: %s", error)

    def _take(self, answer: InitProducerIdResponse) -> None:
        given = ProducerId(answer.producer_id, answer.producer_epoch, self._transactional_id is not None)
        self.trouble = None
        self._attempts.succeeded()
        if self._is_another(given):
            error = BrokerError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the coordinator assigned another producer id")
            self.fail(forgotten(self._transactional_id or "", error))
        else:
            self.current = given
            self.ready.keep(None)
            if self._is_denied:
                self._is_denied, self.enabled = False, True
                logger.info("sending with idempotence from now on")

    def _is_final(self, error: KafkaWireError) -> bool:
        """Return whether the producer will get no id; more errors are final at startup if an id is required."""
        if self._transactional_id is not None:
            return not (error.retriable and self.ready.done)
        if self._insists and self.ready.done and is_denial(error):
            return False
        if isinstance(error, Closed) or _rules_out(error):
            return True
        return self._insists and not error.retriable and not self.ready.done

    def _do_without(self, error: KafkaWireError, now_ms: int) -> None:
        if isinstance(error, Closed):
            self.fail(error)
        elif self._transactional_id is not None:
            self.fail(fenced(self._transactional_id, self._transaction_timeout_ms, error))
        elif self._insists:
            self.fail(_cannot(error) if _rules_out(error) else error)
        else:
            if self.enabled:
                until = " until a producer id is granted" if is_denial(error) else ""
                text = "sending without idempotence%s, so retries may store records twice: %s"
                logger.warning(text, until, error)
            self._is_denied = is_denial(error)
            if self._is_denied:
                self._attempts.denied(error, now_ms)
            self.trouble = None
            self.enabled = False
            self.ready.keep(None)


def _rules_out(error: KafkaWireError) -> bool:
    """Return whether an error means that the cluster will never give this producer an id."""
    return isinstance(error, UnsupportedVersion) or (isinstance(error, BrokerError) and error.code in _RULES_OUT)


def _cannot(error: KafkaWireError) -> KafkaWireError:
    """Return the error for a producer that requires idempotence."""
    text = f"enable_idempotence=True: the cluster issues no producer id: {error}"
    failure = UnsupportedVersion(text) if isinstance(error, UnsupportedVersion) else KafkaWireError(text)
    failure.__cause__ = error
    return failure
