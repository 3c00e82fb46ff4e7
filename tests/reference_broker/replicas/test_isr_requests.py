"""ISR changes reach the controller, whatever it answers, with one request in flight at a time.

Method: use a scripted controller; time passes only when the test moves the clock. Encode requests as they would be
sent, to make sure that their fields fit their version.
"""

import pytest

from kafkawire.reference_broker.replicas.in_sync import CommittedIsr, ProposedIsr
from kafkawire.reference_broker.replicas.isr_requests import PAUSE_MS, AlterPartition, IsrChange
from kafkawire.sdk.errors import BrokerError, ConnectionLost, RequestTimedOut
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID

TOPIC_ID = b"i" * 16
Data = AlterPartitionResponse.PartitionData
Topic = AlterPartitionResponse.TopicData


class Bench:
    """A broker with one controller."""

    def __init__(self, *version):
        self.sent = []
        self.pauses = []
        self.answers = []
        self.broker_epoch = 70
        self.machine = AlterPartition(1, lambda: self.broker_epoch, self, self.later, lambda: 0, *version)

    def ask(self, message, done, timeout_ms, version=None):
        assert timeout_ms == 30_000
        assert version is not None
        by_version = codec(AlterPartitionRequest, version)
        self.sent.append((by_version.decode(by_version.encode(message))[0], version, done))
        return lambda: self.sent.clear()

    def later(self, delay_ms, callback):
        self.pauses.append((delay_ms, callback))
        return self.pauses.clear

    def submit(self, number, topic="t", topic_id=TOPIC_ID, isr=(1, 2)):
        proposed = ProposedIsr(isr, 4, 9)
        change = IsrChange((topic, number), topic_id, proposed, {2: 72})
        self.machine.submit(change, lambda answer: self.answers.append((topic, number, answer)))

    def request(self):
        """Return the only request in flight."""
        [(message, version, _)] = self.sent
        return message, version

    def answer(self, outcome):
        [(_, _, done)] = self.sent
        self.sent.clear()
        done(outcome)

    def answer_each(self, *data, topic_id=TOPIC_ID):
        self.answer(AlterPartitionResponse(topics=[Topic(topic_id, [*data])]))

    def pause(self):
        [(delay_ms, callback)] = self.pauses
        assert delay_ms == PAUSE_MS
        self.pauses.clear()
        callback()


def numbers(message):
    return [each.partition_index for topic in message.topics for each in topic.partitions]


def committed(number):
    return Data(number, leader_id=1, leader_epoch=4, isr=[1, 2], partition_epoch=10)


def test_a_request():
    bench = Bench()
    bench.submit(0, isr=(1, 2, 3))
    message, version = bench.request()
    assert (message.broker_id, message.broker_epoch, version) == (1, 70, 3)
    [topic] = message.topics
    [data] = topic.partitions
    assert (topic.topic_id, data.leader_epoch, data.partition_epoch) == (TOPIC_ID, 4, 9)
    assert [(each.broker_id, each.broker_epoch) for each in data.new_isr_with_epochs] == [(1, 70), (2, 72), (3, -1)]
    bench.answer_each(committed(0))
    assert bench.answers == [("t", 0, CommittedIsr((1, 2), 4, 10))]
    assert (bench.sent, bench.pauses, len(bench.machine)) == ([], [], 0)


def test_an_older_controller_gets_no_broker_epochs():
    bench = Bench(2)
    bench.submit(0, isr=(1, 2, 3))
    message, version = bench.request()
    [topic] = message.topics
    [data] = topic.partitions
    assert (version, topic.topic_id, tuple(data.new_isr), data.new_isr_with_epochs) == (2, TOPIC_ID, (1, 2, 3), ())
    bench.answer_each(committed(0))
    assert bench.answers == [("t", 0, CommittedIsr((1, 2), 4, 10))]


def test_what_waits_goes_into_the_next_request():
    bench = Bench()
    for number in range(3):
        bench.submit(number)
    bench.submit(0, topic="u", topic_id=b"u" * 16)
    assert numbers(bench.request()[0]) == [0]
    bench.answer_each(committed(0))
    message, _ = bench.request()
    assert [(each.topic_id, numbers(AlterPartitionRequest(topics=[each]))) for each in message.topics] == [
        (TOPIC_ID, [1, 2]),
        (b"u" * 16, [0]),
    ]


def test_one_topic_without_an_id_makes_a_request_with_names():
    bench = Bench()
    bench.submit(0)
    bench.answer(ConnectionLost("gone"))
    bench.submit(1, topic="old", topic_id=ZERO_UUID)
    bench.pause()
    message, version = bench.request()
    assert version == 1
    assert [(each.topic_name, each.partitions[0].new_isr) for each in message.topics] == [
        ("t", (1, 2)),
        ("old", (1, 2)),
    ]
    named = [Topic(topic_name=name, partitions=[committed(number)]) for name, number in (("t", 0), ("old", 1))]
    bench.answer(AlterPartitionResponse(topics=named))
    assert [each[:2] for each in bench.answers] == [("t", 0), ("old", 1)]


@pytest.mark.parametrize(
    "outcome",
    [
        ConnectionLost("gone"),
        RequestTimedOut("no controller"),
        BrokerError(ErrorCode.UNSUPPORTED_VERSION, "too old"),
        AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
        AlterPartitionResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        AlterPartitionResponse(error_code=9_999),
        AlterPartitionRequest(),
        ValueError("a defect of the connection"),
    ],
    ids=["lost", "timeout", "version", "epoch", "authorization", "unknown", "other message", "defect"],
)
def test_a_request_that_failed_is_sent_again_after_a_pause(outcome):
    bench = Bench()
    bench.submit(0)
    bench.answer(outcome)
    bench.submit(1)
    assert bench.sent == []
    bench.broker_epoch = 71
    bench.pause()
    message, _ = bench.request()
    assert (numbers(message), message.broker_epoch) == ([0, 1], 71)
    assert bench.answers == []


def test_each_partition_has_its_answer():
    bench = Bench()
    bench.submit(9)
    for number in range(4):
        bench.submit(number)
    bench.answer_each(committed(9))
    bench.answer_each(
        committed(0), Data(1, ErrorCode.INELIGIBLE_REPLICA), Data(2, 9_999), Data(3, leader_recovery_state=5)
    )
    assert bench.answers[1:] == [
        ("t", 0, CommittedIsr((1, 2), 4, 10)),
        ("t", 1, ErrorCode.INELIGIBLE_REPLICA),
        ("t", 2, ErrorCode.UNKNOWN_SERVER_ERROR),
        ("t", 3, ErrorCode.UNKNOWN_SERVER_ERROR),
    ]
    # A change that is retried after an error first waits for the end of a pause.
    bench.submit(1)
    assert bench.sent == []
    bench.pause()
    assert numbers(bench.request()[0]) == [1]


def test_a_partition_without_an_answer_is_sent_again():
    bench = Bench()
    bench.submit(0)
    bench.answer(AlterPartitionResponse(topics=[Topic(b"?" * 16, [committed(0)]), Topic(TOPIC_ID, [committed(5)])]))
    bench.pause()
    assert (numbers(bench.request()[0]), bench.answers) == ([0], [])


@pytest.mark.parametrize("answer", [committed(0), Data(0, ErrorCode.FENCED_LEADER_EPOCH)])
def test_a_later_change_replaces_one_in_flight(answer):
    bench = Bench()
    bench.submit(0)
    bench.submit(0, isr=(1, 2, 3))
    bench.answer_each(answer)
    assert bench.answers == []
    if bench.pauses:
        bench.pause()
    assert len(bench.request()[0].topics[0].partitions[0].new_isr_with_epochs) == 3
    bench.answer_each(committed(0))
    assert len(bench.answers) == 1


def test_a_change_that_is_withdrawn_has_no_answer():
    bench = Bench()
    bench.submit(0)
    bench.submit(1)
    bench.machine.withdraw(("t", 0))
    bench.machine.withdraw(("t", 1))
    bench.answer_each(committed(0))
    assert (bench.answers, bench.sent) == ([], [])


@pytest.mark.defect
def test_a_callback_that_fails_does_not_stop_the_others(caplog):
    bench = Bench()

    def fail(answer):
        raise ZeroDivisionError

    bench.machine.submit(IsrChange(("t", 0), TOPIC_ID, ProposedIsr((1,), 4, 9), {}), fail)
    bench.answer_each(committed(0))
    bench.submit(1)
    assert numbers(bench.request()[0]) == [1]
    assert caplog.text.count("a callback of a log failed") == 1


def test_after_the_end_nothing_is_sent():
    bench = Bench()
    bench.submit(0)
    [(_, _, done)] = bench.sent
    bench.machine.close()
    assert bench.sent == []
    done(ConnectionLost("gone"))
    bench.submit(1)
    assert (bench.sent, bench.pauses, bench.answers) == ([], [], [])


def test_the_end_during_a_pause():
    bench = Bench()
    bench.submit(0)
    bench.answer(ConnectionLost("gone"))
    bench.machine.close()
    assert bench.pauses == []
