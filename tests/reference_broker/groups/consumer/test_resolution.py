"""Regular expressions are resolved outside heartbeats; the matching topics are written, and read back from the log.

Method: use a coordinator with an in-memory log; time is a number, and nothing is resolved unless the test fires the
timers. The answers and records match Apache Kafka's.
"""

from __future__ import annotations

import logging

import pytest

from kafkawire.reference_broker.coordinators.records import decode, encode
from kafkawire.reference_broker.groups.consumer import resolution
from kafkawire.reference_broker.groups.consumer.group import ConsumerMember, Resolved
from kafkawire.reference_broker.groups.consumer.records import CONSUMER_RECORD_TYPES, member_record, regex_record
from kafkawire.reference_broker.groups.consumer.resolution import REFRESH_PAUSE_MS
from kafkawire.reference_broker.groups.topics import TopicFacts
from kafkawire.reference_broker.patterns import topic_pattern
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.groups.consumer_bench import ConsumerBench, numbers
from tests.reference_broker.groups.group_bench import ChangingTopics

#: The earliest time at which a group's expressions are resolved again after a resolution at time 0.
AGAIN_MS = REFRESH_PAUSE_MS + 1


def put(bench, name, partitions=1):
    """Add a topic."""
    bench.topics[name] = TopicFacts(name.encode() * 16, partitions)


def join(bench, member_id="m", regex="[tu]", now=0, **changes):
    """Let a member with an expression join; return the answer."""
    return bench.beat(member_id, now=now, **{"topics": None, "regex": regex, **changes})


def topics(bench):
    """Return the topics that match the expressions."""
    return {regex: set(resolved.topics) for regex, resolved in bench.consumers.resolved.items()}


def kinds(bench, start=0):
    """Return the key types of the written records, one list per batch; tombstones are negative."""
    return [
        [(record.key.SCHEMA.key or 0) * (1 if record.value is not None else -1) for record in records if record]
        for batch in bench.log.batches[start:]
        for records in [[decode(CONSUMER_RECORD_TYPES, *pair) for pair in batch.records]]
    ]


def test_the_first_answer_assigns_nothing_and_the_next_all():
    bench = ConsumerBench()
    first = join(bench)
    assert (first.member_epoch, numbers(first)) == (1, [])
    assert kinds(bench) == [[5, 8]]
    bench.resolve()
    assert (bench.consumers.epoch, topics(bench)) == (2, {"[tu]": {"t"}})
    assert kinds(bench)[1:] == [[16, 3]], "the result is written by a separate operation"
    second = bench.beat("m", 1)
    assert (second.member_epoch, numbers(second)) == (2, [0, 1, 2, 3])
    assert bench.beat("m", 2).assignment is None


def test_names_are_assigned_before_the_expression_is_resolved():
    bench = ConsumerBench()
    put(bench, "u")
    first = join(bench, regex="u", topics=["t"])
    assert (first.member_epoch, numbers(first)) == (2, [0, 1, 2, 3])
    bench.resolve()
    second = bench.beat("m", 2)
    assert (second.member_epoch, len(numbers(second))) == (3, 5)


def test_an_expression_that_stands_for_nothing():
    bench = ConsumerBench()
    join(bench, regex="zzz")
    bench.resolve()
    assert topics(bench) == {"zzz": set()}
    assert kinds(bench) == [[5, 8], [16]]
    bench.beat("m", 1)
    assert bench.timers.next_deadline_ms != 0, "the expression is not resolved again"


def test_a_second_member_with_the_same_one_raises_the_epoch_at_once():
    bench = ConsumerBench()
    join(bench)
    bench.resolve()
    bench.beat("m", 1)
    assert join(bench, "n").member_epoch == 3
    assert set(bench.consumers.target) == {"m", "n"}


def test_another_expression_waits_ten_seconds():
    bench = ConsumerBench()
    put(bench, "u")
    join(bench, "m", "t")
    bench.resolve()
    bench.beat("m", 1)
    assert join(bench, "n", "u").member_epoch == 2
    bench.resolve(AGAIN_MS - 1)
    bench.beat("n", 2, now=AGAIN_MS - 1)
    bench.resolve(AGAIN_MS - 1)
    assert topics(bench) == {"t": {"t"}}
    bench.beat("n", 2, now=AGAIN_MS)
    bench.resolve(AGAIN_MS)
    assert topics(bench) == {"t": {"t"}, "u": {"u"}}
    assert kinds(bench)[-1] == [16, 16, 3], "all expressions are resolved"
    assert numbers(bench.beat("n", 2, now=AGAIN_MS)) == [0]


def test_a_topic_that_comes_is_found_ten_seconds_after_the_last_look():
    bench = ConsumerBench()
    join(bench)
    bench.resolve()
    bench.beat("m", 1)
    put(bench, "u")
    bench.beat("m", 2, now=AGAIN_MS - 1)
    bench.resolve(AGAIN_MS - 1)
    assert topics(bench) == {"[tu]": {"t"}}
    bench.beat("m", 2, now=AGAIN_MS)
    bench.resolve(AGAIN_MS)
    assert topics(bench) == {"[tu]": {"t", "u"}}
    assert len(numbers(bench.beat("m", 2, now=AGAIN_MS))) == 5


def test_a_topic_that_comes_beside_the_expression_changes_nothing_but_the_note():
    bench = ConsumerBench()
    join(bench)
    bench.resolve()
    bench.beat("m", 1)
    put(bench, "v")
    batches = len(bench.log.batches)
    bench.beat("m", 2, now=AGAIN_MS)
    bench.resolve(AGAIN_MS)
    assert kinds(bench, batches) == [[16]]
    assert bench.consumers.resolved["[tu]"] == Resolved(frozenset("t"), resolution_of(bench).version, AGAIN_MS)


def test_a_member_that_takes_the_place_of_a_static_one_gives_up_its_own_expression():
    bench = ConsumerBench()
    put(bench, "u")
    join(bench, "m", "t")
    bench.resolve()
    join(bench, "s", "", topics=["u"], instance_id="i")
    bench.beat("s", -2, instance_id="i")
    join(bench, "m", "", topics=["u"], instance_id="i")
    assert set(bench.consumers.members) == {"m"}
    assert topics(bench) == {}


def test_a_topic_that_goes_and_comes_again_keeps_its_place():
    bench = ConsumerBench()
    put(bench, "u")
    join(bench)
    bench.resolve()
    bench.beat("m", 1)
    del bench.topics["t"]
    assert numbers(bench.beat("m", 2)) == [0], "the expression still matches u"
    assert topics(bench) == {"[tu]": {"t", "u"}}
    assert bench.beat("m", 2, owned={b"u" * 16: frozenset({0})}).member_epoch == 3
    bench.topics["t"] = TopicFacts(b"n" * 16, 2)
    assert len(numbers(bench.beat("m", 3))) == 3, "this requires no further resolution"


def test_what_they_stand_for_holds_for_a_while():
    bench = ConsumerBench(group_consumer_regex_refresh_interval_ms=20_000)
    join(bench)
    bench.resolve()
    for now, count in ((20_000, 1), (20_001, 2)):
        bench.beat("m", bench.consumers.members["m"].epoch, now=now)
        bench.resolve(now)
        assert sum(16 in each for each in kinds(bench)) == count


def test_a_member_that_takes_another_expression_gives_up_what_the_first_stood_for():
    bench = ConsumerBench()
    put(bench, "u")
    join(bench, regex="t")
    bench.resolve()
    bench.beat("m", 1)
    batches = len(bench.log.batches)
    changed = bench.beat("m", 2, said=(0, 1, 2, 3), regex="u")
    assert (changed.member_epoch, numbers(changed)) == (2, [])
    assert kinds(bench, batches) == [[5, -16, 8]]
    assert bench.beat("m", 2, said=()).member_epoch == 2
    bench.resolve()
    assert topics(bench) == {"u": {"u"}}, "no resolution was less than ten seconds old"
    assert numbers(bench.beat("m", 2)) == [0]


def test_a_member_that_takes_names_instead():
    bench = ConsumerBench()
    join(bench)
    bench.resolve()
    bench.beat("m", 1)
    bench.beat("m", 2, regex="", topics=["t"])
    assert (bench.consumers.resolved, bench.consumers.epoch) == ({}, 3)
    assert bench.consumers.is_subscribed_to("t")
    assert not bench.consumers.is_subscribed_to("u")


def test_what_expressions_stand_for_goes_with_the_last_member_that_has_it():
    bench = ConsumerBench()
    for member_id, regex in (("a", "t.*"), ("b", "t.*"), ("c", "u.*")):
        join(bench, member_id, regex, topics=[])
    bench.resolve()
    bench.beat("a", -1)
    bench.beat("c", 1, now=AGAIN_MS)
    bench.resolve(AGAIN_MS)
    assert set(topics(bench)) == {"t.*", "u.*"}
    bench.beat("b", bench.consumers.members["b"].epoch, topics=["t"], regex="")
    again = bench.loaded()
    assert set(topics(again)) == {"u.*"}
    again.beat("b", -1)
    again.beat("c", -1)
    assert topics(again) == {}
    assert again.delete() == [ErrorCode.NONE]
    values = {key: value for batch in again.log.batches for key, value in batch.records}
    assert set(values.values()) == {None}


def test_it_is_taken_over_from_the_log():
    bench = ConsumerBench()
    join(bench)
    bench.resolve()
    bench.beat("m", 1)
    again = bench.loaded()
    assert topics(again) == {"[tu]": {"t"}}
    batches = len(again.log.batches)
    assert again.beat("m", 2).member_epoch == 2
    assert kinds(again, batches) == []
    again.beat("m", 2, now=AGAIN_MS)
    again.resolve(AGAIN_MS)
    assert kinds(again, batches) == [[16]], "topics may have been added in the meantime"


def test_what_apache_kafka_has_found_is_used_although_its_expression_is_too_large_here(caplog):
    bench, regex = ConsumerBench(), "(?:t{1000}){4}"
    member = ConsumerMember("m", regex=regex, rebalance_timeout_ms=1)
    found = Resolved(frozenset("t"), 5_000, 0)
    for record in (member_record("g", member), regex_record("g", regex, found)):
        bench.log.append([encode(record)], 0, lambda _: None)
    again = bench.loaded()
    answer = again.beat("m", 0, topics=["u"])
    assert (answer.member_epoch, numbers(answer)) == (2, [0, 1, 2, 3])
    with caplog.at_level(logging.WARNING):
        again.beat("m", 2, now=AGAIN_MS)
        again.resolve(AGAIN_MS)
    assert again.consumers.resolved == {regex: Resolved(frozenset("t"), 5_001, AGAIN_MS)}
    assert "the group g cannot be resolved: SubscribedTopicRegex" in caplog.text


class Unwalked(ChangingTopics):
    """Topics that allow lookups but no iteration."""

    def __iter__(self):
        raise AssertionError("the code iterated over all topics")


def test_a_heartbeat_does_not_look_at_all_topics():
    bench = ConsumerBench()
    join(bench)
    bench.resolve()
    bench.topics.__class__ = Unwalked
    assert bench.beat("m", 1).member_epoch == 2
    assert join(bench, "n").member_epoch == 3
    put(bench, "v")
    assert bench.beat("m", 2).member_epoch == 2
    assert bench.beat("m", 2, said=(0, 1), regex="other").member_epoch == 2


def test_a_heartbeat_that_changes_nothing_looks_at_no_topic():
    bench = ConsumerBench()
    join(bench)
    bench.resolve()
    bench.beat("m", 1)
    bench.topics.data = {}
    assert bench.beat("m", 2).member_epoch == 2


HARD = "(.?){490}t"


def hard(bench):
    """Let a member with an expression that is slow to resolve join, and let the resolution run for a while."""
    for number in range(4):
        put(bench, f"{number:02}" * 124)
    join(bench, regex=HARD)
    for _ in range(20):
        bench.timers.fire(0)


def test_a_hard_expression_holds_nobody_up(monkeypatch):
    taken = []
    step = topic_pattern.TopicPattern._step

    def counted(pattern, *what):
        before = pattern._steps
        found = step(pattern, *what)
        taken.append(pattern._steps - before)
        return found

    monkeypatch.setattr(topic_pattern.TopicPattern, "_step", counted)
    bench = ConsumerBench()
    hard(bench)
    most = 0
    while "g" in resolution_of(bench)._running:
        taken.clear()
        bench.timers.fire(0)
        most = max(most, sum(taken))
    assert topics(bench) == {HARD: {"t"}}
    assert most <= topic_pattern.SLICE_STEPS + 4 * topic_pattern.STATES_MAX


def resolution_of(bench):
    (shard,) = bench.groups._runtime.shards()
    return shard._changes.resolution


def test_two_heartbeats_look_up_once():
    bench = ConsumerBench()
    hard(bench)
    bench.beat("m", 1)
    join(bench, "n", "t")
    bench.resolve()
    assert set(topics(bench)) == {HARD}, "the other member joined while the resolution was in progress"
    assert sum(16 in each for each in kinds(bench)) == 1


@pytest.mark.parametrize("ends", ["left", "changed", "deleted", "unloaded", "unloaded and loaded"])
def test_what_nobody_needs_any_more_is_neither_looked_up_nor_written(ends):
    bench = ConsumerBench()
    hard(bench)
    if ends == "deleted":
        bench.beat("m", -1)
        bench.delete()
    elif ends == "left":
        bench.beat("m", -1)
    elif ends == "changed":
        bench.beat("m", 1, regex="", topics=["t"])
    else:
        bench.groups.unload()
        if ends == "unloaded and loaded":
            bench.elect()
    for _ in range(4):
        bench.timers.fire(0)
    assert bench.timers.next_deadline_ms != 0
    assert not any(16 in each for each in kinds(bench))


def test_one_of_several_is_not_looked_up_to_the_end():
    bench = ConsumerBench()
    for number in range(4):
        put(bench, f"{number:02}" * 124)
    join(bench, "m", HARD)
    join(bench, "n", "t")
    bench.resolve(0)
    put(bench, "new")
    bench.beat("m", 2, now=AGAIN_MS)
    for _ in range(20):
        bench.timers.fire(AGAIN_MS)
    bench.beat("m", -1, now=AGAIN_MS)
    for _ in range(4):
        bench.timers.fire(AGAIN_MS)
    assert "g" not in resolution_of(bench)._running


@pytest.mark.parametrize(("now", "is_stale"), [(50_000, False), (60_000, False), (60_001, True), (49_999, True)])
def test_a_clock_that_was_set_back_does_not_delay_it(now, is_stale):
    bench = ConsumerBench()
    join(bench, now=50_000)
    bench.resolve(50_000)
    put(bench, "u")
    bench.beat("m", 1, now=now)
    assert ("g" in resolution_of(bench)._running) is is_stale


def test_what_cannot_be_written_is_looked_up_again_later(caplog):
    bench = ConsumerBench()
    join(bench)
    bench.log.error = BrokerError(ErrorCode.RECORD_LIST_TOO_LARGE, "too large")
    with caplog.at_level(logging.WARNING):
        bench.resolve()
    assert "cannot write the topics matched by the expressions of the group g" in caplog.text
    bench.log.error = None
    bench.beat("m", 1)
    bench.resolve()
    assert topics(bench) == {}
    bench.beat("m", 1, now=AGAIN_MS)
    bench.resolve(AGAIN_MS)
    assert topics(bench) == {"[tu]": {"t"}}


def test_too_many_names_are_not_kept(caplog, monkeypatch):
    monkeypatch.setattr(resolution, "_NAMES_CHARACTERS_MAX", 5)
    bench = ConsumerBench()
    put(bench, "uu")
    join(bench, "m", "t")
    join(bench, "n", ".*")
    bench.resolve()
    assert topics(bench) == {"t": {"t"}}
    with caplog.at_level(logging.WARNING):
        bench.beat("n", 1, now=AGAIN_MS)
        bench.resolve(AGAIN_MS)
    assert "the group g: the names exceed the limit of 5 characters" in caplog.text
    assert topics(bench) == {"t": {"t"}}
    assert "g" not in resolution_of(bench)._running
    monkeypatch.setattr(resolution, "_NAMES_CHARACTERS_MAX", 7)
    for now in (2 * AGAIN_MS - 1, 2 * AGAIN_MS):
        assert topics(bench) == {"t": {"t"}}
        bench.beat("n", 2, now=now)
        bench.resolve(now)
    assert topics(bench) == {"t": {"t"}, ".*": {"t", "uu"}}


def test_a_join_that_was_not_written_leaves_nothing():
    bench = ConsumerBench()
    bench.log.error = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS, "too few")
    join(bench)
    bench.log.error = None
    bench.resolve()
    assert list(bench.groups.consumer_groups()) == []
    assert kinds(bench) == []
