"""One request to a cluster, with its target, its deadline and its outcome.

A machine submits a `Call` to the router, which reports the end of the call exactly once, through `on_done`.
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
from kafkawire.sdk.transport.driver_interface import NextPoll, Versions

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    #: The type of a call's response; a plain `Call` may have any response.
    Answer = TypeVar("Answer", bound=Message, default=Any)
else:
    from typing import TypeVar

    Answer = TypeVar("Answer")

__all__ = ["ANY_BROKER", "CONTROLLER", "Answer", "Call", "Coordinator", "Node", "Purpose", "Target"]


class Purpose(Enum):
    """The purpose of a connection.

    A broker answers the requests of a connection in order, so a fetch that waits for data would delay a heartbeat, and
    a join that waits for other members would delay a commit: each purpose gets its own connection. The last four are
    used by brokers: requests from and to the controller, fetches by followers, markers that may wait for replicas, and
    transaction checks.
    """

    DATA = "data"
    GROUP = "group"
    JOIN = "join"
    CONTROL = "control"
    REPLICATION = "replication"
    MARKERS = "markers"
    VERIFICATION = "verification"

    __hash__ = object.__hash__  # that of enumerations is slow, and every call looks up links


class Node(NamedTuple):
    """A broker, identified by its node id."""

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


#: Any reachable broker.
ANY_BROKER: Final = _Role.ANY_BROKER
#: The broker that accepts requests for the controller.
CONTROLLER: Final = _Role.CONTROLLER

Target = _Role | Node | Coordinator


class Call(Generic[Answer]):
    """A request and its outcome.

    Args:
        target: the responsible broker, which is looked up again for each attempt.
        request: returns the request and its version (None for the highest that both sides know), given the versions
            that the broker supports; called for each attempt.
        response: the class of the response; None if there is no response (Produce with acks=0), in which case the call
            ends once the request is written.
        deadline_ms: when the call fails permanently, even while it waits for a response.
        on_done: called once with the call and the time, when `result` or `error` is set.
        check: returns the error in a response; None if there is none.
        retries: whether the call is retried; False if the first failure ends it and its machine decides what to do
            next.
        final: retriable codes that end the call.
        pauses: the pause in ms before a retry, keyed by error code; for other codes, the backoff decides.
        timeout_ms: how long to wait for one response; None for `request_timeout_ms`.
        purpose: the purpose of the connection to use.
        absent_ms: how long to wait for a node that the cluster does not include; None for the deadline.

    Attributes:
        result: the response; None if there was none. Both `result` and `error` are set if `check` returned an error.
        error: why the call failed; None if it succeeded.
        done: whether the call has ended.
        next_poll: when to poll the call's machine after the response; `on_done` may change this.
        number: identifies the call at its router.
    """

    __slots__ = (
        "_request",
        "absent_ms",
        "check",
        "deadline_ms",
        "done",
        "error",
        "final",
        "number",
        "on_done",
        "pauses",
        "purpose",
        "response",
        "result",
        "retries",
        "target",
        "timeout_ms",
        "next_poll",
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
        absent_ms: int | None = None,
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
        self.absent_ms = absent_ms
        self.result: Answer | None = None
        self.error: KafkaWireError | None = None
        self.done = False
        self.number = 0
        self.next_poll: NextPoll = NextPoll.SOON

    def __str__(self) -> str:
        name = "Produce" if self.response is None else self.response.SCHEMA.name.removesuffix("Response")
        return f"{name} to {self.target}"

    @property
    def answer(self) -> Answer:
        """The response to a call that has succeeded.

        Raises:
            LocalProtocolError: there is no response.
        """
        if self.result is None:
            raise LocalProtocolError(f"{self}: there is no response")
        return self.result

    def request(self, versions: Versions) -> tuple[Message, int | None]:
        """Return the request and its version; None for the highest that both sides know."""
        return self._request(versions)

    def settle(self, result: Answer | None, error: KafkaWireError | None, now_ms: int) -> None:
        """End the call, unless it has already ended."""
        if not self.done:
            self.done = True
            self.result = result
            self.error = error
            self.on_done(self, now_ms)

    def cancel(self) -> None:
        """Abandon the call: it is not sent again, any response is dropped, and `on_done` is not called.

        `Router.withdraw` also frees its place at the router at once.
        """
        self.done = True
