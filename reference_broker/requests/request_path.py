"""The chain of elements around every handler; each sees the request before the handler, and then the answer.

An element is a function of the next handler, the call and the request. It returns the handler's answer or one of its
own: an authorizing element may skip the handler, and a throttling element adds to the handler's answer. `ELEMENTS`
lists the elements from the outside in; to add an element, write a function and add it to the list.

Source: Apache Kafka, `KafkaApis.handle`, `RequestChannel` (its request log).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import Answer, DelayedOperation
from kafkawire.reference_broker.requests.error_responses import error_response
from kafkawire.reference_broker.requests.long_requests import begin
from kafkawire.reference_broker.work.broker_end import BrokerEnd
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError, DecodeError, RemoteProtocolError
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["ELEMENTS", "Element", "Following", "answer_errors", "chain", "log_requests", "only_on_controller"]

R = TypeVar("R")

#: Logs each request at level DEBUG; Kafka calls this the request log.
_requests = logging.getLogger("kafkawire.broker.requests")

#: The handler that follows an element.
Following = Callable[[Call, Any], Answer]

Element = Callable[[Following, Call, Any], Answer]


def answer_errors(following: Following, call: Call, message: Any) -> Answer:
    """Answer with an error code if the handler, or later its delayed operation, raises an error.

    Raises:
        RemoteProtocolError: the request cannot be answered with an error, so the connection must be closed.
    """
    try:
        answer = following(call, message)
        if isinstance(answer, DelayedOperation):
            answer.answers(partial(_answer_of, call, message))
    except BrokerEnd:
        raise
    except BaseException as error:
        return begin(_answer_of(call, message, error))
    return answer


def _answer_of(call: Call, message: Any, error: BaseException) -> Work[Message]:
    """Return the answer to a request that failed, in the form of the API's response."""
    if isinstance(error, BrokerError) and error.code != ErrorCode.NONE:  # NONE would report success
        return error_response(call, message, error.code, error.detail)
    if isinstance(error, RemoteProtocolError) and not isinstance(error, DecodeError):
        raise error  # raised deliberately, because there is no answer
    name = call.api.name
    text = "%s version %d from %s failed"
    call.services.lines.exception((name, type(error)), call.now_ms, text, name, call.version, call.peer)
    return error_response(call, message, ErrorCode.UNKNOWN_SERVER_ERROR, "")


def log_requests(following: Following, call: Call, message: Any) -> Answer:
    """Write the request log."""
    answer = following(call, message)
    if _requests.isEnabledFor(logging.DEBUG):
        outcome = "no response" if answer is None else "answered"
        if isinstance(answer, DelayedOperation) and answer.response is None:
            outcome = "delayed"
        _requests.debug(
            "%s version %d, client id %r, from %s: %s", call.api.name, call.version, call.client_id, call.peer, outcome
        )
    return answer


def only_on_controller(
    is_controller: Callable[[], bool], following: Callable[[Call, Any], R], call: Call, message: Any
) -> R:
    """Pass on requests while this broker is the controller; an element for some APIs once `is_controller` is bound.

    Raises:
        BrokerError: NOT_CONTROLLER; the client can find the controller with Metadata.
    """
    if not is_controller():
        raise BrokerError(ErrorCode.NOT_CONTROLLER)
    return following(call, message)


#: From the outside in.
ELEMENTS: tuple[Element, ...] = (log_requests, answer_errors)


def chain(elements: Iterable[Element], handler: Following) -> Following:
    """Return a handler that passes each request through the elements in order."""
    for element in reversed(tuple(elements)):
        handler = partial(element, handler)
    return handler
