"""Requests for more partitions, and the answers of an Apache Kafka 4.3 node with id 1; each test names the topics.

In a case, `one` and `two` stand for topics with one and two partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafkawire.sdk.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["CASES", "PRESENT", "Case", "answers_of"]

Topic = CreatePartitionsRequest.CreatePartitionsTopic
Assignment = CreatePartitionsRequest.CreatePartitionsAssignment

#: The number of partitions of each topic before every case.
PRESENT = {"one": 1, "two": 2}

#: Error code and message.
Answer = tuple[ErrorCode, str | None]

#: A topic, the requested number of partitions, and the brokers for the new partitions.
Wanted = tuple[str, int, Sequence[Sequence[int]] | None]

DONE: Answer = (ErrorCode.NONE, None)
UNKNOWN: Answer = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
LATE: Answer = (ErrorCode.REQUEST_TIMED_OUT, None)
TWICE: Answer = (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
SAME: Answer = (ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s).")


def fewer(name: str, present: int, count: int) -> Answer:
    text = f"The topic {name} currently has {present} partition(s); {count} would not be an increase."
    return ErrorCode.INVALID_PARTITIONS, text


def wrong(text: str) -> Answer:
    return ErrorCode.INVALID_REPLICA_ASSIGNMENT, text


def number_of(additional: int, assignments: int) -> Answer:
    return wrong(
        f"Attempted to add {additional} additional partition(s), but only {assignments} assignment(s) were specified."
    )


def includes(what: str) -> Answer:
    return wrong(f"The manual partition assignment includes {what}.")


class Case(NamedTuple):
    """A request and its answer.

    Attributes:
        name: the name of the case.
        wanted: the topics in the request.
        answers: the answers, keyed by topic.
        timeout_ms: the timeout in the request.
        is_real: whether the request is more than a validation: topics grow if it is valid.
    """

    name: str
    wanted: Sequence[Wanted]
    answers: Mapping[str, Answer]
    timeout_ms: int = 30_000
    is_real: bool = False

    def request(self, names: Mapping[str, str]) -> CreatePartitionsRequest:
        """Return the request; `names` maps `one` and `two` to the topic names to use."""
        topics = [
            Topic(names.get(name, name), count, None if brokers is None else [Assignment(each) for each in brokers])
            for name, count, brokers in self.wanted
        ]
        return CreatePartitionsRequest(topics, self.timeout_ms, not self.is_real)

    def expected(self, names: Mapping[str, str]) -> Mapping[str, Answer]:
        """Return the answers with the topics renamed."""
        return {
            names.get(name, name): (code, text and text.replace(f"topic {name} ", f"topic {names.get(name, name)} "))
            for name, (code, text) in self.answers.items()
        }


def answers_of(response: CreatePartitionsResponse) -> Mapping[str, Answer]:
    """Return the answers in a response, which must contain each topic exactly once."""
    answers = {each.name: (ErrorCode(each.error_code), each.error_message) for each in response.results}
    assert len(answers) == len(response.results)
    return answers


CASES = [
    Case("nothing", [], {}),
    Case("unknown", [("none", 3, None)], {"none": UNKNOWN}),
    Case("invalid names", [("a/b", 3, None), ("", 3, None)], {"a/b": UNKNOWN, "": UNKNOWN}),
    Case("metadata of the cluster", [("__cluster_metadata", 3, None)], {"__cluster_metadata": UNKNOWN}),
    Case("as many", [("two", 2, None)], {"two": SAME}),
    Case("fewer", [("two", 1, None)], {"two": fewer("two", 2, 1)}),
    Case("none", [("two", 0, None)], {"two": fewer("two", 2, 0)}),
    Case(
        "below zero", [("two", -1, None), ("one", -5, None)], {"two": fewer("two", 2, -1), "one": fewer("one", 1, -5)}
    ),
    Case("more", [("two", 3, None), ("one", 7, None)], {"two": DONE, "one": DONE}),
    Case(
        "named twice",
        [("two", 3, None), ("none", 1, None), ("two", 4, None), ("one", 2, None), ("no", 1, None), ("no", 1, None)],
        {"two": TWICE, "no": TWICE, "one": DONE, "none": UNKNOWN},
    ),
    Case("assigned", [("two", 4, [[1], [1]])], {"two": DONE}),
    Case("assigned too often", [("two", 3, [[1], [1]])], {"two": number_of(1, 2)}),
    Case("assigned too few times", [("two", 5, [[1]])], {"two": number_of(3, 1)}),
    Case("not assigned at all", [("two", 5, [])], {"two": number_of(3, 0)}),
    Case("assigned to no broker", [("two", 3, [[]])], {"two": includes("an empty replica list")}),
    Case("last one assigned to no broker", [("two", 4, [[1], []])], {"two": includes("an empty replica list")}),
    Case(
        "assigned to unknown brokers",
        [("two", 3, [[7]]), ("one", 2, [[-1]])],
        {
            "two": includes("broker 7, but no such broker is registered"),
            "one": includes("broker -1, but no such broker is registered"),
        },
    ),
    Case(
        "assigned to an unknown broker twice",
        [("two", 3, [[7, 7]])],
        {"two": includes("broker 7, but no such broker is registered")},
    ),
    Case("assigned to one twice", [("two", 3, [[1, 1]])], {"two": includes("the broker 1 more than once")}),
    Case("the lowest id counts", [("two", 3, [[7, 1, 1]])], {"two": includes("the broker 1 more than once")}),
    Case(
        "the lowest id is unknown",
        [("two", 3, [[1, 1, 0]])],
        {"two": includes("broker 0, but no such broker is registered")},
    ),
    Case("as many, and assigned", [("two", 2, [[1]])], {"two": SAME}),
    Case("fewer, and assigned", [("two", 1, [[]])], {"two": fewer("two", 2, 1)}),
    Case("without time", [("two", 3, None), ("none", 3, None)], {"two": LATE, "none": LATE}, 0),
    Case("without time, for real", [("two", 3, None)], {"two": LATE}, -1, True),
    Case("without time, named twice", [("two", 3, None), ("two", 3, None)], {"two": TWICE}, 0),
    Case(
        "refused, really",
        [("two", 2, None), ("one", 2, [[7]])],
        {"two": SAME, "one": includes("broker 7, but no such broker is registered")},
        30_000,
        True,
    ),
]
