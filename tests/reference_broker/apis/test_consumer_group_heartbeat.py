"""ConsumerGroupHeartbeat has the fields that members send and receive; errors come with a message.

Method: send requests to a broker without sockets.
"""

from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode


def test_join_and_hand_over(bench):
    topic_id = bench.create(partitions=2)
    bench.offsets_topic()
    joining = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    first = bench.ask(ConsumerGroupHeartbeatRequest("g", **joining), 0)
    assert (first.error_code, first.member_epoch) == (ErrorCode.NONE, 2)
    (part,) = first.assignment.topic_partitions
    assert (part.topic_id, list(part.partitions)) == (topic_id, [0, 1])
    bench.ask(ConsumerGroupHeartbeatRequest("g", **joining), 0)
    Owned = ConsumerGroupHeartbeatRequest.TopicPartitions
    owned = [Owned(topic_id, [0, 1])]
    told = bench.ask(ConsumerGroupHeartbeatRequest("g", first.member_id, 2, topic_partitions=owned), 0)
    assert len(told.assignment.topic_partitions[0].partitions) == 1


def test_a_regular_expression_finds_topics_that_come_and_forgets_those_that_go(bench):
    bench.create()
    bench.offsets_topic()

    def beat(epoch, *owned, **joining):
        parts = [ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id, [0]) for topic_id in owned]
        told = bench.ask(ConsumerGroupHeartbeatRequest("g", "m", epoch, topic_partitions=parts, **joining), 1)
        for _ in range(9):
            bench.advance(0)
        return told.member_epoch, told.assignment and len(told.assignment.topic_partitions)

    assert beat(0, rebalance_timeout_ms=60_000, subscribed_topic_regex="[tu]") == (1, 0)
    assert beat(1) == (2, 1)
    topic_id = bench.create("u")
    bench.advance(10_001)
    assert beat(2) == (2, None)
    assert beat(2) == (3, 2)
    bench.core.topics.delete(bench.store.topics["t"], bench.now_ms, lambda _: None)
    assert beat(3, topic_id) == (4, 1)
    bench.create()
    assert beat(4) == (5, 2), "the request is answered immediately, since the name is known"
    bench.restart()
    assert beat(5) == (5, None), "the member has been taken over"


def test_errors(bench):
    refused = bench.ask(ConsumerGroupHeartbeatRequest("g", "m", 1), 0)
    assert refused.error_code == ErrorCode.NOT_COORDINATOR
    bench.offsets_topic()
    refused = bench.ask(ConsumerGroupHeartbeatRequest("g", "m", 1), 0)
    assert (refused.error_code, refused.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Consumer group g not found.")


def test_members_of_the_first_version_are_given_an_id_and_later_ones_bring_their_own(bench):
    bench.offsets_topic()
    joining = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    given = bench.ask(ConsumerGroupHeartbeatRequest("g", **joining), 0)
    assert (given.error_code, bool(given.member_id)) == (ErrorCode.NONE, True)
    refused = bench.ask(ConsumerGroupHeartbeatRequest("g", **joining), 1)
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    brought = bench.ask(ConsumerGroupHeartbeatRequest("g", "m", **joining), 1)
    assert (brought.error_code, brought.member_id) == (ErrorCode.NONE, "m")
