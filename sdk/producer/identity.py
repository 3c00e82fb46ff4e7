"""The producer id of an idempotent producer: asked for once, with an epoch that this client raises.

Source: Apache Kafka, `TransactionManager`, `Sender`; KIP-98 (InitProducerId), KIP-360 (epochs raised by the client).
"""

from __future__ import annotations

import logging
from typing import Final

from kafkawire.sdk.client.call import ANY_BROKER, Call
from kafkawire.sdk.client.router import Router
from kafkawire.sdk.errors import BrokerError, Closed, KafkaWireError, UnsupportedVersion
from kafkawire.sdk.options import INT32_MAX
from kafkawire.sdk.producer.batch import ProducerId
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.promise import Promise

__all__ = ["MAX_EPOCH", "ProducerIdentity"]

logger = logging.getLogger("kafkawire.producer")

#: Epochs are int16, and the highest is the broker's own: after this one a new producer id is asked for.
MAX_EPOCH: Final = 2**15 - 2


class ProducerIdentity:
    """The producer id of one producer.

    Args:
        router: carries the request.
        timeout_ms: for one series of attempts; another follows.
        wanted: True to insist on it, False to do without, None to do without if the cluster gives none.

    Attributes:
        current: the id and epoch of new batches, None while there is none.
        enabled: whether batches need one.
        ready: settled once the first id is there, or nothing needs one.
    """

    def __init__(self, router: Router, timeout_ms: int, wanted: bool | None) -> None:
        self._router = router
        self._timeout_ms = timeout_ms
        self._insists = wanted is True
        self._asking = False
        self._refused: KafkaWireError | None = None
        self.current: ProducerId | None = None
        self.enabled = wanted is not False
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
            request = InitProducerIdRequest(None, INT32_MAX)
            call = Call(
                ANY_BROKER,
                lambda _: (request, None),
                InitProducerIdResponse,
                now_ms + self._timeout_ms,
                self._answered,
                check=_error_of,
            )
            self._router.submit(call, now_ms)

    def raise_epoch(self) -> None:
        """Go on with the next epoch, or with another id after the last one."""
        if self.current is not None:
            number, epoch = self.current
            self.current = ProducerId(number, epoch + 1) if epoch < MAX_EPOCH else None

    def fail(self, error: KafkaWireError) -> None:
        """Give up: the client has ended."""
        self._refused = error
        self.ready.fail(error)

    def _answered(self, call: Call, now_ms: int) -> None:
        self._asking = False
        if call.error is None:
            assert isinstance(call.result, InitProducerIdResponse)
            self.current = ProducerId(call.result.producer_id, call.result.producer_epoch)
            self.ready.keep(None)
        elif call.error.retriable:
            logger.warning("no producer id yet, asking again: %s", call.error)
        elif isinstance(call.error, Closed):
            self.fail(call.error)
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


def _error_of(response: Message) -> BrokerError | None:
    assert isinstance(response, InitProducerIdResponse)
    return BrokerError(response.error_code, "producer id") if response.error_code != ErrorCode.NONE else None
