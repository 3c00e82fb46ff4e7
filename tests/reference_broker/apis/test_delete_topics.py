"""DeleteTopics removes topics by name and by id, with their files and committed offsets.

Method: a broker without sockets.
"""

import pytest

from kafkawire.reference_broker.groups.offsets import Committed
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.broker_bench import versions_of
from tests.reference_broker.log.produced_batches import produced

State = DeleteTopicsRequest.DeleteTopicState


@pytest.mark.parametrize("version", versions_of(ApiKey.DELETE_TOPICS))
def test_every_version(bench, version):
    topic_id = bench.create(partitions=2)
    bench.produce(produced(b"x"))
    request = DeleteTopicsRequest([State("t")]) if version >= 6 else DeleteTopicsRequest(topic_names=["t"])
    (result,) = bench.ask(request, version).responses
    assert (result.name, result.error_code) == ("t", ErrorCode.NONE)
    assert result.topic_id == (topic_id if version >= 6 else ZERO_UUID)
    assert not bench.core.directory.topics
    assert not [path for path in bench.folder.iterdir() if path.name.startswith("t-")]
    assert bench.create() != topic_id
    assert bench.core.directory.log("t", 0).next_offset == 0


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (State("none"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (State(None, b"x" * 16), ErrorCode.UNKNOWN_TOPIC_ID),
        (State("t", b"x" * 16), ErrorCode.INVALID_REQUEST),
        (State("__consumer_offsets"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_refused(bench, state, code):
    bench.create()
    bench.core.offsets_topic()
    (result,) = bench.ask(DeleteTopicsRequest([state])).responses
    assert result.error_code == code
    assert result.error_message
    assert len(bench.core.directory.topics) == 2


def test_by_id(bench):
    topic_id = bench.create()
    (result,) = bench.ask(DeleteTopicsRequest([State(None, topic_id)])).responses
    assert (result.name, result.topic_id, result.error_code) == ("t", topic_id, ErrorCode.NONE)


def test_committed_offsets_go_too(bench):
    topic_id = bench.create()
    bench.core.offsets.commit("g", {("t", 0): Committed(5, -1, "", 0, topic_id)}, 0)
    bench.ask(DeleteTopicsRequest([State("t")]))
    assert not bench.core.offsets.of_group("g")
    bench.restart()
    assert not bench.core.offsets.of_group("g")
