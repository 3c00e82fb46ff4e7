"""A broker without sockets: requests pass through the codecs of client and broker, and the test sets the time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from kafkawire.reference_broker.apis import load
from kafkawire.reference_broker.config.endpoints import Listener
from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.control_plane.single_broker import SingleBroker
from kafkawire.reference_broker.coordinators.topic_log import TopicLog
from kafkawire.reference_broker.core import Core
from kafkawire.reference_broker.metadata.image import TopicImage
from kafkawire.reference_broker.metadata.local_topics import LocalTopics
from kafkawire.reference_broker.metadata.topic_store import open_alone
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.dispatcher import Dispatcher
from kafkawire.reference_broker.requests.peer import Peer
from kafkawire.reference_broker.storage.disk.disk import Disk, FileSlice
from kafkawire.reference_broker.storage.disk.machine import MachineDisk
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.background import Background, at_once
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import KNOWN_APIS, ApiKey
from kafkawire.sdk.protocol.tables.enums import CONSUMER_OFFSETS_TOPIC
from kafkawire.sdk.transport.wire import Address

__all__ = ["LISTENER", "NOT_ASKED", "NOW_MS", "BrokerBench", "all_steps", "versions_of"]

NOW_MS = 1_700_000_000_000

#: The value for authorized operations in a response if the request did not ask for them.
NOT_ASKED = -(2**31)

LISTENER = Listener("PLAINTEXT", Address("", 9092), Address("broker", 9092))


def versions_of(key: ApiKey) -> range:
    """Return the stable versions of an API."""
    api = KNOWN_APIS[key]
    return api.stable_versions.numbers()


def all_steps(delayed: DelayedOperation) -> int:
    """Handle the rest of a request; return the number of steps that it took."""
    steps = 0
    while delayed.steps is not None:
        delayed.step()
        steps += 1
    return steps


class BrokerBench:
    """A broker core on a disk, with shortcuts for requests.

    Args:
        data: the data directory: a folder or a disk.
        background: see `Background`.
        options: the broker's options.
    """

    def __init__(self, data: Path | Disk, background: Background = at_once, /, **options: object) -> None:
        self.disk: Disk = MachineDisk(data) if isinstance(data, Path) else data
        self.background = background
        # The offsets topic has only one partition, so a test knows where a group is; changes to a group are not
        # batched.
        self.options = {"offsets_topic_num_partitions": 1, "group_consumer_assignment_interval_ms": 0, **options}
        self.now_ms = NOW_MS
        self.peer = Peer(LISTENER, "host")
        self._uuids = (number.to_bytes(16, "big") for number in self.new_numbers())
        self.core = self._open()

    def new_numbers(self) -> Iterator[int]:
        """Return the sequence of numbers from which topic ids are made."""
        return count(1)

    def _open(self) -> Core:
        options = read_options(self.options)
        uuids = self._uuids
        services = LogServices(self.disk, self.background, clock=lambda: self.now_ms)
        self.store = open_alone(services, options.node_id, lambda: next(uuids), options.topic_defaults)
        numbers = count(1)
        listeners, served = {LISTENER.name: LISTENER.advertised}, load()
        with contextlib.ExitStack() as undo:
            undo.callback(self.store.directory.abandon)
            control = SingleBroker(self.store, options, listeners, served)
            core = Core(control, self.store.directory, options, lambda: f"id{next(numbers)}", self.now_ms, served)
            undo.pop_all()
        while any(part.is_loading for part in (core.groups, core.transactions, core.shares.coordinator)):
            # A failed read is retried after a pause.
            self.now_ms = max(self.now_ms, core.timers.next_deadline_ms or 0)
            core.advance(self.now_ms)
        return core

    def elect(self) -> None:
        """Elect coordinators for the partitions that have none yet."""
        for coordinator in (self.core.groups, self.core.transactions, self.core.shares.coordinator):
            for number, replica in enumerate(self.core.replicas.of(coordinator.topic)):
                coordinator.elected(number, TopicLog(replica), replica.leader_epoch, self.now_ms)

    def crash(self) -> None:
        """Restart the broker without closing it, as after a crash."""
        self.leave(is_crash=True)
        self.core.abandon()
        self.core = self._open()

    def restart(self) -> None:
        """Close and restart."""
        self.leave(is_crash=False)
        self.core.close()
        self.core = self._open()

    def restart_again(self) -> None:
        """Start again after a failed startup."""
        self.core = self._open()

    def ask(self, message: Message, version: int | None = None, client_id: str = "client") -> Any:
        """Encode and decode a request and its response; return the response, or a `DelayedOperation` if it is delayed.

        Args:
            message: the request.
            version: the version of the request; None for the highest stable one.
            client_id: the client id in the request's header.
        """
        api = KNOWN_APIS[ApiKey(message.SCHEMA.key or 0)]
        version = versions_of(ApiKey(api.key))[-1] if version is None else version
        assert self.core.requests.served[ApiKey(api.key)][0] <= version <= self.core.requests.served[ApiKey(api.key)][1]
        data = codec(type(message), version).encode(message)
        received, end = codec(type(message), version).decode(data)
        assert end == len(data)
        request = Request(api, version, 0, client_id, received, len(data))
        answer = self.core.requests.handle(self.call(request), received)
        if isinstance(answer, DelayedOperation):
            all_steps(answer)
        self.settle()
        if isinstance(answer, DelayedOperation):
            return self.through(answer.response, version) if answer.response is not None else answer
        return answer if answer is None else self.through(answer, version)

    def leave(self, *, is_crash: bool) -> None:
        """Leave the cluster; a standalone broker has none."""

    def settle(self) -> None:
        """Run the calls that the broker has scheduled; a standalone broker schedules none."""

    def call(self, request: Request) -> Call:
        """Return the context of a request."""
        return Call(self.core.requests.services, request, self.peer, self.now_ms)

    def use(self, **parts: object) -> None:
        """Provide the test's parts to the handlers that declare them."""
        given, before = {**self.core.parts, **parts}, self.core.requests
        self.core.requests = Dispatcher(
            load(), given, before.services, before.frame_bytes_max, throttling=before.throttling
        )

    def begin(self, message: Message, version: int | None = None) -> DelayedOperation:
        """Handle the first step of a large request, as its client sent it; return the rest of the work."""
        api = KNOWN_APIS[ApiKey(message.SCHEMA.key or 0)]
        request = Request(api, api.stable_versions.last if version is None else version, 0, "client", message, 1)
        answer = self.core.requests.handle(self.call(request), message)
        assert isinstance(answer, DelayedOperation)
        return answer

    def ask_then(self, message: Message, version: int | None, answered: Callable[[Any], None]) -> None:
        """Send a request, and pass on the response when it arrives."""
        response = self.ask(message, version)
        if isinstance(response, DelayedOperation):
            response.then(answered)
        else:
            answered(response)

    def through(self, response: Message, version: int) -> Any:
        """Return a response as the client reads it."""
        parts = codec(type(response), version).encode_parts(response)
        data = b"".join(part.read() if isinstance(part, FileSlice) else bytes(part) for part in parts)
        decoded, end = codec(type(response), version).decode(data)
        assert end == len(data)
        return decoded

    def advance(self, milliseconds: int) -> None:
        """Let time pass."""
        self.now_ms += milliseconds
        self.core.advance(self.now_ms)
        self.settle()

    def create(self, name: str = "t", partitions: int = 1, **configs: str) -> bytes:
        """Create a topic, whose configurations are named with underscores; return its id."""
        Config = CreateTopicsRequest.CreatableTopicConfig
        given = [Config(config.replace("_", "."), value) for config, value in configs.items()]
        topic = CreateTopicsRequest.CreatableTopic(name, partitions, 1, configs=given)
        (result,) = self.ask(CreateTopicsRequest([topic])).topics
        assert not result.error_code, result
        return bytes(result.topic_id)

    def begin_small(self, segment_bytes: int, partitions: int = 1) -> None:
        """Begin to create the topic t with segments smaller than clients may ask for."""
        topics = self.core.topics
        assert isinstance(topics, LocalTopics)
        topics._create("t", partitions, {"segment.bytes": str(segment_bytes)}, lambda made: None)

    def offsets_topic(self) -> TopicImage:
        """Return the offsets topic; create it if it does not exist."""
        made: list[TopicImage | BrokerError] = []
        self.core.topics.ensure(CONSUMER_OFFSETS_TOPIC, made.append)
        self.settle()
        (topic,) = made
        assert isinstance(topic, TopicImage)
        return topic

    def produce(self, records: bytes | bytearray, topic: str = "t", partition: int = 0, acks: int = -1) -> Any:
        """Send a batch; return the part of the response for its partition."""
        Data = ProduceRequest.TopicProduceData
        data = Data(topic, partition_data=[ProduceRequest.PartitionProduceData(partition, records)])
        response = self.ask(ProduceRequest(None, acks, 1000, [data]), 9)
        return response.responses[0].partition_responses[0] if response is not None else None
