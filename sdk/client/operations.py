"""Operations that coroutines on the driver's loop await: requests sent by the router, and topic metadata.

They are for independent work in several steps, mainly by an admin; producers and consumers use machines instead. The
router retries requests; an operation defines its deadline and which responses are errors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeVar, cast

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import BrokerError, KafkaWireError, UnsupportedVersion
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import ANY_BROKER, Call, Target
from kafkawire.sdk.routing.metadata import Topic
from kafkawire.sdk.routing.requests import MetadataQuestion, lacking
from kafkawire.sdk.routing.retry import Attempts, Backoff
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.driver_interface import Versions
from kafkawire.sdk.transport.promise import Promise

__all__ = ["ABSENT_MS", "NO_SUCH_TOPIC", "Operations"]

#: How long a request waits for a broker that the cluster does not include, or for a partition that its topic does not
#: have: brokers learn of new ones in less than a second, and a typo should not take as long as a broker that is down.
ABSENT_MS: Final = 5_000

#: Retriable when writing to a topic that is still being created, but final when asking about the topic.
NO_SUCH_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})

#: The versions of Metadata that name topics by id: those in which a response may not know the name.
_BY_ID: Final = next(field.nullable for field in MetadataResponse.MetadataResponseTopic.FIELDS if field.name == "name")

Given = TypeVar("Given")
Result = TypeVar("Result")
Response = TypeVar("Response", bound=Message)


class Operations:
    """The requests of one client, for coroutines to await.

    Args:
        router: sends the requests.
        backoff: the pauses between `attempts`.
        timeout_ms: the limit for a whole operation, including retries.
        wake: makes the driver poll the router and the machines.
    """

    def __init__(self, router: Router, backoff: Backoff, timeout_ms: int, wake: Callable[[], None]) -> None:
        self.router = router
        self._backoff = backoff
        self._timeout_ms = timeout_ms
        self.wake = wake

    def attempts(self) -> Attempts:
        """Return the `Attempts` of an operation that starts now."""
        return Attempts(self._backoff, monotonic_ms() + self._timeout_ms)

    def within(self, timeout_ms: int) -> Operations:
        """Return the same operations with another limit, in milliseconds."""
        return Operations(self.router, self._backoff, timeout_ms, self.wake)

    async def request(
        self,
        target: Target,
        request: Message | Callable[[Versions], tuple[Message, int | None]],
        response: type[Response],
        check: Callable[[Response], object] | None = None,
        *,
        deadline_ms: int | None = None,
        final: Collection[ErrorCode] = (),
        retries: bool = True,
    ) -> Response:
        """Send a request and return its response.

        Args:
            target: the responsible broker.
            request: the request, or a function that returns it and its version if its shape depends on the version.
            response: the class of its response.
            check: raises the error in a response.
            deadline_ms: when to give up; None for the timeout of the operations, from now.
            final: retriable codes that end the operation.
            retries: whether the router repeats the request; False if the caller decides what to repeat.

        Raises:
            KafkaWireError: the last error.
            Exception: any other error raised by `request` or `check`, which ends only this request.
        """

        def guarded(step: Callable[[Given], Result], given: Given) -> Result:
            try:
                return step(given)
            except KafkaWireError:
                raise
            except Exception as defect:  # in the router, such an error would end the client
                promise.fail(defect)
                raise KafkaWireError(f"{call}: {defect!r}") from defect

        def build(versions: Versions) -> tuple[Message, int | None]:
            return (request, None) if isinstance(request, Message) else guarded(request, versions)

        def error_of(message: Message) -> KafkaWireError | None:
            try:
                if check is not None:
                    guarded(check, cast("Response", message))
            except KafkaWireError as error:
                return error
            return None

        def done(call: Call, now_ms: int) -> None:
            if call.error is not None:
                promise.fail(call.error)
            else:
                promise.keep(cast("Response", call.result))

        call = Call(
            target,
            build,
            response,
            monotonic_ms() + self._timeout_ms if deadline_ms is None else deadline_ms,
            done,
            check=error_of,
            retries=retries,
            final=final,
            absent_ms=ABSENT_MS,
        )
        promise: Promise[Response] = Promise(lambda: self.router.withdraw(call))
        self.router.submit(call, monotonic_ms())
        self.wake()
        return await promise

    async def describe(
        self, names: Collection[str] | None, *, deadline_ms: int | None = None, final: Collection[ErrorCode] = ()
    ) -> dict[str, Topic]:
        """Ask a broker about topics.

        Args:
            names: the names of the topics; None for all topics of the cluster.
            deadline_ms: when to give up; None for the timeout of the operations, from now.
            final: retriable codes that end the operation.

        Raises:
            BrokerError: the error of the first topic that cannot be described.
            RemoteProtocolError: the response leaves out a topic.
        """
        metadata = self.router.metadata

        def check(response: MetadataResponse) -> None:
            for name in names or ():
                if name not in metadata.topics:
                    code = metadata.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                    raise BrokerError(code, f"topic {name}")

        asked = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        await self.look_up(asked, check, deadline_ms=deadline_ms, final=final)
        chosen = metadata.topics if names is None else names
        return {name: metadata.topics[name] for name in chosen if name in metadata.topics}

    async def look_up(
        self,
        topics: Sequence[MetadataRequest.MetadataRequestTopic] | None,
        check: Callable[[MetadataResponse], object] | None = None,
        *,
        deadline_ms: int | None = None,
        final: Collection[ErrorCode] = (),
        include_authorized_operations: bool = False,
    ) -> MetadataResponse:
        """Ask a broker about topics, and merge its response into the metadata, which then has the error of each topic.

        Args:
            topics: the topics, all of them by name or all by id; None for all topics of the cluster.
            check: raises the error in a merged response.
            deadline_ms: when to give up; None for the timeout of the operations, from now.
            final: retriable codes that end the operation.
            include_authorized_operations: whether to ask what this user may do with each topic.

        Raises:
            RemoteProtocolError: the response leaves out a topic.
        """

        def merge(response: MetadataResponse) -> None:
            declined = question.take(response, monotonic_ms())
            if declined is not None:
                raise declined
            named = {key for topic in response.topics for key in (topic.name, topic.topic_id)}
            for topic in topics or ():
                if (topic.name or topic.topic_id) not in named:
                    raise lacking(response, f"topic {topic.name or topic.topic_id.hex()}")
            if check is not None:
                check(response)

        request = MetadataRequest(
            topics,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=include_authorized_operations,
        )
        question = MetadataQuestion(self.router.metadata, request)
        by_id = any(topic.name is None for topic in topics or ())

        def ask(versions: Versions) -> tuple[Message, int]:
            asked, version = question(versions)
            if by_id and (_BY_ID is None or version not in _BY_ID):
                text = f"the broker's highest version, {version}, cannot name topics by id"
                raise UnsupportedVersion(f"Metadata: {text}; this needs Apache Kafka 3.1 or later")
            return asked, version

        return await self.request(ANY_BROKER, ask, MetadataResponse, merge, deadline_ms=deadline_ms, final=final)
