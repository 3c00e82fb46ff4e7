"""ElectLeaders: elect the preferred leaders of partitions, or leaders that are not in sync.

0: preferred leaders only (KIP-183). 1: the type of election, an error code for the request (KIP-460). 2: flexible.

In a cluster, the response waits until this broker's image contains the elected leaders; partitions whose leaders do not
appear in time get REQUEST_TIMED_OUT. If all partitions were requested, those that already have the right leader are
left out. A standalone broker leads all its partitions, so none needs an election.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kafkawire.reference_broker.cluster.controller.asked_controller import AskedController
from kafkawire.reference_broker.cluster.controller.refusals import ACCEPTED, Refusal, refusal_of
from kafkawire.reference_broker.cluster.image_waits import ImageWaits
from kafkawire.reference_broker.metadata.image import UNKNOWN_PARTITION, MetadataImage, TopicImage
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.requests.api_handlers import Scope, serves, since
from kafkawire.reference_broker.requests.authorization import allows_on_cluster, require_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, given_later
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ElectionType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["handle", "handle_in_cluster"]

Topic = ElectLeadersResponse.ReplicaElectionResult
Partition = ElectLeadersResponse.PartitionResult
Results = Mapping[TopicPartition, Refusal]

_TOP_LEVEL_SINCE = since(ElectLeadersResponse, "error_code")


@serves(ApiKey.ELECT_LEADERS, scope=Scope.ALONE)
def handle(
    call: Call, request: ElectLeadersRequest, *, authorizer: Authorizer, metadata: MetadataCache
) -> Work[ElectLeadersResponse]:
    """Handle ElectLeaders for a standalone broker."""
    image = metadata.image
    try:
        require_on_cluster(authorizer, call, AclOperation.ALTER)
        if request.election_type not in list(ElectionType):
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    except BrokerError as error:
        asked = () if request.topic_partitions is None else (yield from _partitions(request, image))
        refusal = Refusal(error.code, error.detail)
        return _response(dict.fromkeys(asked, refusal), error.code, call.version)
    if request.topic_partitions is None:
        return ElectLeadersResponse(replica_election_results=[Topic(name) for name in image.topics])
    topics = []
    for topic in request.topic_partitions:
        partitions = []
        for number in topic.partitions:
            partitions.append(Partition(number, *_needless(image, topic.topic, number)))
            yield
        topics.append(Topic(topic.topic, partitions))
    return ElectLeadersResponse(replica_election_results=topics)


def _needless(image: MetadataImage, topic: str, number: int) -> Refusal:
    """Return why a standalone broker elects no leader of a partition."""
    known = image.topics.get(topic)
    if known is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}")
    if known.partition(number) is UNKNOWN_PARTITION:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{number}")
    return refusal_of(ErrorCode.ELECTION_NOT_NEEDED)


@serves(ApiKey.ELECT_LEADERS, scope=Scope.CLUSTER)
def handle_in_cluster(
    call: Call,
    request: ElectLeadersRequest,
    *,
    authorizer: Authorizer,
    controller: AskedController,
    image_waits: ImageWaits,
    metadata: MetadataCache,
) -> Work[ElectLeadersResponse | DelayedOperation]:
    """Handle ElectLeaders in a cluster."""
    if not allows_on_cluster(authorizer, call, AclOperation.ALTER):
        asked = () if request.topic_partitions is None else (yield from _partitions(request, metadata.image))
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return _response(_refused(asked, code), code, call.version)
    partitions = yield from _partitions(request, metadata.image)
    are_all, version = request.topic_partitions is None, call.version
    if request.election_type not in list(ElectionType):
        # As in Apache Kafka; its client cannot send this.
        return _response(_refused(partitions, ErrorCode.UNKNOWN_SERVER_ERROR), ErrorCode.UNKNOWN_SERVER_ERROR, version)
    deadline_ms = call.now_ms + request.timeout_ms

    def ask(give: Callable[[ElectLeadersResponse], None]) -> None:
        def elected(outcome: Mapping[TopicPartition, int | Refusal] | Refusal) -> None:
            if isinstance(outcome, Refusal):
                code = outcome.error_code
                # As in Apache Kafka, a broker that is not the controller returns that error for each partition, without
                # a text.
                of_all = ErrorCode.NONE if code is ErrorCode.NOT_CONTROLLER else code
                give(_response(_refused(partitions, code), of_all, version))
                return
            showing = _Showing(
                outcome,
                image_waits,
                lambda results: give(_response(_told(results, are_all), ErrorCode.NONE, version)),
            )
            showing.wait(deadline_ms)

        controller.elect_leaders(partitions, ElectionType(request.election_type), elected)

    return given_later(ask)


def _partitions(request: ElectLeadersRequest, image: MetadataImage) -> Work[Sequence[TopicPartition]]:
    """Return the requested partitions without duplicates; for null, all partitions in the image."""
    wanted: dict[TopicPartition, None] = {}
    if request.topic_partitions is None:
        for topic in image.topics.values():
            for number, partition in enumerate(topic.partitions):
                if partition is not UNKNOWN_PARTITION:
                    wanted[TopicPartition(topic.name, number)] = None
            yield
    for asked in request.topic_partitions or ():
        for number in asked.partitions:
            wanted[TopicPartition(asked.topic, number)] = None
            yield
    return list(wanted)


class _Showing:
    """The leaders elected for a request, until the image contains them.

    Args:
        outcome: the elected leader of each partition, or the reason why none was elected.
        waits: waits for changes of the image.
        done: called once with the results of all partitions.
    """

    def __init__(
        self, outcome: Mapping[TopicPartition, int | Refusal], waits: ImageWaits, done: Callable[[Results], None]
    ) -> None:
        self._waits = waits
        self._done = done
        self._results = {each: result for each, result in outcome.items() if isinstance(result, Refusal)}
        #: The leaders that have not appeared in the image yet, keyed by topic and partition number.
        self._missing: dict[str, dict[int, int]] = {}
        for partition, leader in outcome.items():
            if not isinstance(leader, Refusal):
                self._results[partition] = Refusal(ErrorCode.REQUEST_TIMED_OUT)
                self._missing.setdefault(partition.topic, {})[partition.partition] = leader
        self._topics_left = len(self._missing)

    def wait(self, deadline_ms: int) -> None:
        """Wait for the image at most until the deadline, then call `done`."""
        if not self._topics_left:
            self._done(self._results)
        for name, leaders in list(self._missing.items()):
            self._waits.wait_until(name, self._shows(name, leaders), self._topic_ended, deadline_ms)

    def _shows(self, name: str, leaders: dict[int, int]) -> Callable[[TopicImage | None], bool]:
        def shows(topic: TopicImage | None) -> bool:
            for number in [number for number, leader in leaders.items() if _leads(topic, number, leader)]:
                # Once seen, a leader is not checked again, even if it is replaced before the remaining leaders appear.
                del leaders[number]
                self._results[TopicPartition(name, number)] = ACCEPTED
            return not leaders

        return shows

    def _topic_ended(self, error: BrokerError | None) -> None:
        self._topics_left -= 1
        if not self._topics_left:
            self._done(self._results)


def _leads(topic: TopicImage | None, number: int, leader: int) -> bool:
    return topic is not None and topic.partition(number).leader == leader


def _refused(partitions: Iterable[TopicPartition], code: ErrorCode) -> Results:
    return dict.fromkeys(partitions, Refusal(code))


def _told(results: Results, are_all: bool) -> Results:
    if not are_all:
        return results
    return {each: result for each, result in results.items() if result.error_code != ErrorCode.ELECTION_NOT_NEEDED}


def _response(results: Results, code: ErrorCode, version: int) -> ElectLeadersResponse:
    topics: dict[str, list[Partition]] = {}
    for partition, result in results.items():
        topics.setdefault(partition.topic, []).append(Partition(partition.partition, *result))
    response = ElectLeadersResponse(replica_election_results=[Topic(*each) for each in topics.items()])
    if version >= _TOP_LEVEL_SINCE:
        response.error_code = code
    return response
