"""The producer id of one producer, and its epoch.

An idempotent producer asks any broker once, and raises the epoch itself. One with transactions asks their coordinator,
which ends what an earlier producer with the same transactional id has left open, fences that producer, and alone raises
the epoch.

Source: Apache Kafka, `TransactionManager`, `Sender`; KIP-98 (InitProducerId), KIP-360 (epochs raised by the client).
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

from kafkawire.sdk.client.call import ANY_BROKER, Call, Coordinator
from kafkawire.sdk.client.requests import carries
from kafkawire.sdk.client.router import Router
from kafkawire.sdk.errors import BrokerError, Closed, KafkaWireError, UnsupportedVersion
from kafkawire.sdk.options import INT32_MAX
from kafkawire.sdk.producer.batch import ProducerId
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
from kafkawire.sdk.transport.driven import Versions
from kafkawire.sdk.transport.promise import Promise

__all__ = ["MAX_EPOCH", "ProducerIdentity"]

logger = logging.getLogger("kafkawire.producer")

#: Epochs are int16, and the highest is the broker's own: after this one a new producer id is asked for.
MAX_EPOCH: Final = 2**15 - 2

#: From here on a coordinator may give another producer id instead of a higher epoch: it may have raised it twice.
_LAST_EPOCHS: Final = MAX_EPOCH - 1


class ProducerIdentity:
    """The producer id of one producer.

    Args:
        router: carries the request.
        timeout_ms: for one series of attempts; another follows.
        wanted: True to insist on it, False to do without, None to do without if the cluster gives none.
        transactional_id: of its transactions, None without.
        transaction_timeout_ms: after which the coordinator aborts a transaction.

    Attributes:
        current: the id and epoch of new batches, None while there is none.
        enabled: whether batches need one.
        ready: settled once the first id is there, or nothing needs one.
        transaction_version: the level of that feature, as the coordinator told last.
    """

    def __init__(
        self,
        router: Router,
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
        self._asking = False
        self._replaced: ProducerId | None = None
        self._refused: KafkaWireError | None = None
        self.current: ProducerId | None = None
        self.enabled = wanted is not False
        self.transaction_version = 0
        self.ready: Promise[None] = Promise()
        if not self.enabled:
            self.ready.keep(None)

    @property
    def error(self) -> KafkaWireError | None:
        """Why there is no id, and will be none; None if there is hope."""
        return self._refused

    def poll(self, now_ms: int) -> None:
        """Ask for an id if one is needed."""
        if self.enabled and self.current is None and not self._asking and self._refused is None:
            self._asking = True
            name = self._transactional_id
            call = Call(
                ANY_BROKER if name is None else Coordinator(CoordinatorType.TRANSACTION, name),
                self._request,
                InitProducerIdResponse,
                now_ms + self._timeout_ms,
                self._answered,
                check=partial(_error_of, "producer id" if name is None else f"producer id for transactional id {name}"),
            )
            self._router.submit(call, now_ms)

    def raise_epoch(self) -> bool:
        """Go on with the next epoch, or with another id after the last one; return whether the producer may do so."""
        if self._transactional_id is not None:
            return False
        if self.current is not None:
            number, epoch, _ = self.current
            self.current = ProducerId(number, epoch + 1) if epoch < MAX_EPOCH else None
        return True

    def renew(self) -> None:
        """Have the coordinator raise the epoch; until it has, there is no id."""
        if self.current is not None:  # otherwise it is being raised already
            self._replaced, self.current = self.current, None

    def fail(self, error: KafkaWireError) -> None:
        """Give up: the client has ended."""
        self._refused = error
        self.ready.fail(error)

    def _is_another(self, given: ProducerId) -> bool:
        """Return whether the coordinator gave another producer id, and not a higher epoch: it forgot this one."""
        replaced = self._replaced
        return replaced is not None and given.number != replaced.number and replaced.epoch < _LAST_EPOCHS

    def _request(self, versions: Versions) -> tuple[Message, int]:
        version = versions.version_for(InitProducerIdRequest)
        self.transaction_version = versions.feature_level(TRANSACTION_VERSION_FEATURE)
        number, epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        if self._replaced is not None:
            if not carries(InitProducerIdRequest, "producer_id", version):
                text = "the coordinator cannot raise the epoch of a producer that goes on; Apache Kafka can from 2.5"
                raise UnsupportedVersion(f"transactional id {self._transactional_id}: {text}")
            number, epoch, _ = self._replaced
        return InitProducerIdRequest(self._transactional_id, self._transaction_timeout_ms, number, epoch), version

    def _answered(self, call: Call[InitProducerIdResponse], now_ms: int) -> None:
        self._asking = False
        is_transactional = self._transactional_id is not None
        if call.error is None:
            given = ProducerId(call.answer.producer_id, call.answer.producer_epoch, is_transactional)
            if self._is_another(given):
                error = BrokerError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "it gave another producer id")
                self.fail(forgotten(self._transactional_id or "", error))
            else:
                self.current = given
                self.ready.keep(None)
        elif isinstance(call.error, Closed):
            self.fail(call.error)
        elif call.error.retriable and (self.ready.done or not is_transactional):
            logger.warning("no producer id yet, asking again: %s", call.error)
        elif is_transactional:
            self.fail(fenced(self._transactional_id or "", self._transaction_timeout_ms, call.error))
        elif self._insists:
            self.fail(_cannot(call.error))
        else:
            logger.warning("sending without idempotence, retries may store records twice: %s", call.error)
            self.enabled = False
            self.ready.keep(None)


def _cannot(error: KafkaWireError) -> KafkaWireError:
    """Return the error of a producer that insists on idempotence."""
    text = f"enable_idempotence=True: the cluster gives no producer id: {error}"
    failure = UnsupportedVersion(text) if isinstance(error, UnsupportedVersion) else KafkaWireError(text)
    failure.__cause__ = error
    return failure


def _error_of(what: str, response: InitProducerIdResponse) -> BrokerError | None:
    return BrokerError(response.error_code, what) if response.error_code != ErrorCode.NONE else None
