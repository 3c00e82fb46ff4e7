"""One request to a cluster: to whom it goes, until when, and what becomes of it.

A machine submits a `Call` to the router and learns of its end exactly once, by `on_done`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple

from kafkawire.sdk.errors import KafkaWireError, LocalProtocolError
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.driver_interface import Turn, Versions

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    #: The response of a call; `Call` alone is one of any.
    Answer = TypeVar("Answer", bound=Message, default=Any)
else:
    from typing import TypeVar

    Answer = TypeVar("Answer")

__all__ = ["ANY_BROKER", "CONTROLLER", "Answer", "Call", "Coordinator", "Node", "Purpose", "Target"]


class Purpose(Enum):
    """What a connection is for.

    A broker answers the requests of a connection in order, so a fetch that waits for data would delay a heartbeat, and
    a join that waits for other members a commit: each purpose gets its own connection.
    """

    DATA = "data"
    GROUP = "group"
    JOIN = "join"

    __hash__ = object.__hash__  # an enumeration's own is a function in Python, and links are looked up for every call


class Node(NamedTuple):
    """A broker by its number."""

    node_id: int

    def __str__(self) -> str:
        return f"node {self.node_id}"


class Coordinator(NamedTuple):
    """The broker in charge of a group, a transactional id or a share partition.

    Attributes:
        kind: what `key` names.
        key: the group id or the transactional id.
    """

    kind: CoordinatorType
    key: str

    def __str__(self) -> str:
        return f"the coordinator of {self.kind.name.lower()} {self.key}"


class _Role(Enum):
    ANY_BROKER = "any broker"
    CONTROLLER = "the controller"

    def __str__(self) -> str:
        return self.value


#: Whichever broker can be reached.
ANY_BROKER: Final = _Role.ANY_BROKER
#: The broker that takes requests for the controller.
CONTROLLER: Final = _Role.CONTROLLER

Target = _Role | Node | Coordinator


class Call(Generic[Answer]):
    """A request and its outcome.

    Args:
        target: the broker in charge, looked up again for each attempt.
        request: returns the request and its version (None for the highest that both sides know), given what the broker
            speaks; called for each attempt.
        response: the class of the response; None if there is none (Produce with acks=0): the call is done once the
            request is written.
        deadline_ms: when it fails for good, also while it waits for a response.
        on_done: called once with the call and the time, when `result` or `error` is set.
        check: returns the error that a response carries, None if it succeeded.
        retries: False if the first failure ends it, because its machine decides what comes next.
        final: retriable codes that end it.
        pauses: in ms, before it is tried again after these codes; otherwise the backoff says how long.
        timeout_ms: for one response; None for `request_timeout_ms`.
        purpose: the connection that it takes.

    Attributes:
        result: the response, None if there was none; set beside `error` if `check` refused it.
        error: why it failed, None if it succeeded.
        done: whether it has ended.
        turn: when its machine is to be polled after the response; `on_done` may change it.
    """

    __slots__ = (
        "_request",
        "check",
        "deadline_ms",
        "done",
        "error",
        "final",
        "on_done",
        "pauses",
        "purpose",
        "response",
        "result",
        "retries",
        "target",
        "timeout_ms",
        "turn",
    )

    def __init__(
        self,
        target: Target,
        request: Callable[[Versions], tuple[Message, int | None]],
        response: type[Answer] | None,
        deadline_ms: int,
        on_done: Callable[[Call[Answer], int], None],
        *,
        check: Callable[[Answer], KafkaWireError | None] | None = None,
        retries: bool = True,
        final: Collection[ErrorCode] = (),
        pauses: Mapping[ErrorCode, int] = MappingProxyType({}),
        timeout_ms: int | None = None,
        purpose: Purpose = Purpose.DATA,
    ) -> None:
        self.target = target
        self._request = request
        self.response = response
        self.deadline_ms = deadline_ms
        self.on_done = on_done
        self.check = check
        self.retries = retries
        self.final = final
        self.pauses = pauses
        self.timeout_ms = timeout_ms
        self.purpose = purpose
        self.result: Answer | None = None
        self.error: KafkaWireError | None = None
        self.done = False
        self.turn: Turn = Turn.SOON

    def __str__(self) -> str:
        name = "Produce" if self.response is None else self.response.SCHEMA.name.removesuffix("Response")
        return f"{name} to {self.target}"

    @property
    def answer(self) -> Answer:
        """The response to a call that has succeeded.

        Raises:
            LocalProtocolError: it has none.
        """
        if self.result is None:
            raise LocalProtocolError(f"{self}: there is no response")
        return self.result

    def request(self, versions: Versions) -> tuple[Message, int | None]:
        """Return the request and its version, None for the highest that both sides know."""
        return self._request(versions)

    def settle(self, result: Answer | None, error: KafkaWireError | None, now_ms: int) -> None:
        """End the call, unless it has ended."""
        if not self.done:
            self.done = True
            self.result = result
            self.error = error
            self.on_done(self, now_ms)

    def cancel(self) -> None:
        """Forget the call: it is not tried again, a response is dropped, and `on_done` is not called."""
        self.done = True
