"""Scenarios of share groups, as data: what members do, and what happens around them. `ShareStage` plays them.

Topics and groups have short names here; each run has its own. A scenario's outcome is what its steps have shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

__all__ = [
    "SCENARIOS",
    "Accept",
    "Acknowledge",
    "Alter",
    "Close",
    "Commit",
    "Compact",
    "Delete",
    "Deny",
    "Drain",
    "Kill",
    "Knock",
    "Offsets",
    "Open",
    "Poll",
    "Produce",
    "Renew",
    "Restart",
    "Scenario",
    "Step",
    "Subscribe",
    "Trim",
]

Kind = Literal["ACCEPT", "RELEASE", "REJECT"]


class Produce(NamedTuple):
    """Write one batch of records whose values are the words of a text.

    Attributes:
        words: the values; a word such as `k=v` has a key.
        topic, partition: where to.
        codec: how to compress the batch.
        ends: whether the records are in a transaction, and how it ends; without a transaction, None.
        age_ms: the age of the records.
    """

    words: str
    topic: str = "t"
    partition: int = 0
    codec: str = "none"
    ends: Literal["commit", "abort"] | None = None
    age_ms: int = 0


class Open(NamedTuple):
    """Open a member.

    Attributes:
        member: its name; a member whose name begins with `victim` has a process of its own.
        topics, group: what it reads.
        mode, acquire, records: its options.
    """

    member: str
    topics: Sequence[str] = ("t",)
    group: str = "g"
    mode: Literal["explicit", "implicit"] = "explicit"
    acquire: Literal["batch_optimized", "record_limit"] = "batch_optimized"
    records: int = 500


class Poll(NamedTuple):
    """Read, and show values and delivery counts.

    Attributes:
        member: who reads.
        wanted: how many records to wait for; 0 to show that there are none.
    """

    member: str
    wanted: int


class Acknowledge(NamedTuple):
    """Acknowledge the records last read; those whose values are not mentioned are accepted."""

    member: str
    kinds: Mapping[str, Kind] = {}


class Accept(NamedTuple):
    """Accept the records last read, and commit."""

    member: str


class Renew(NamedTuple):
    """Renew the locks of the records last read."""

    member: str


class Commit(NamedTuple):
    """Commit, and show the outcome of each partition."""

    member: str


class Subscribe(NamedTuple):
    """Replace a member's subscription."""

    member: str
    topics: Sequence[str]


class Close(NamedTuple):
    """Close a member."""

    member: str


class Kill(NamedTuple):
    """Kill the process of a victim."""

    member: str


class Drain(NamedTuple):
    """Let members read and accept at the same time; show all values and delivery counts.

    Attributes:
        members: who reads.
        wanted: how many records to wait for.
        shows_offsets: whether to show the offsets too, which depend on earlier steps in some scenarios.
    """

    members: Sequence[str]
    wanted: int
    shows_offsets: bool = True


class Knock(NamedTuple):
    """Write records until a member receives one, so that its group has begun to read the partition."""

    member: str


class Offsets(NamedTuple):
    """Show the start offsets and the lags of a group."""

    group: str = "g"


class Alter(NamedTuple):
    """Move the start offset of an empty group; show the outcome.

    Attributes:
        offset: the new offset.
        group: the group.
    """

    offset: int
    group: str = "g"


class Delete(NamedTuple):
    """Delete an empty group; show the outcome."""

    group: str = "g"


class Trim(NamedTuple):
    """Delete the records of a topic before an offset."""

    offset: int


class Compact(NamedTuple):
    """Write a record to a new segment, and wait until compaction has removed the first records of the topic.

    Attributes:
        word: the record, with a key.
        first_offset: the offset of the first record that stays.
    """

    word: str
    first_offset: int


class Deny(NamedTuple):
    """Forbid everybody to read a topic or a group."""

    kind: Literal["topic", "group"]


class Restart(NamedTuple):
    """Kill the broker once both clients have come to this step, and start it again."""


Step = (
    Produce | Open | Poll | Acknowledge | Accept | Renew | Commit | Subscribe | Close | Kill | Drain | Knock
    | Offsets | Alter | Delete | Trim | Compact | Deny | Restart
)  # fmt: skip


class Scenario(NamedTuple):
    """One scenario.

    Attributes:
        steps: what happens, in order.
        topics: the topics, with their numbers of partitions.
        configs: configurations of the groups, named with underscores.
        topic_configs: configurations of the topics.
        has_short_locks: whether acquisition locks last only a moment.
    """

    steps: Sequence[Step]
    topics: Mapping[str, int] = {"t": 1}
    configs: Mapping[str, str] = {}
    topic_configs: Mapping[str, str] = {}
    has_short_locks: bool = False


def _compressed(codec: str) -> Scenario:
    released: dict[str, Kind] = {"b": "RELEASE", "d": "RELEASE"}
    return Scenario(
        (
            Produce("a b c d e", codec=codec),
            Open("m"),
            Poll("m", 5),
            Acknowledge("m", released),
            Commit("m"),
            Poll("m", 2),
            Accept("m"),
            Close("m"),
            Offsets(),
        )
    )


def _rebalanced(members: int) -> Scenario:
    names = [f"m{number}" for number in range(members)]
    written = [
        Produce(" ".join(f"{partition}-{batch}-{number}" for number in range(5)), partition=partition)
        for batch in range(4)
        for partition in range(3)
    ]
    opened: list[Step] = [Open(name) for name in names]
    closed: list[Step] = [Close(name) for name in names[1:]]
    again = [Produce(f"again-{partition}", partition=partition) for partition in range(3)]
    steps = [*written[:6], *opened, *written[6:], Drain(names, 60), *closed, *again, Drain(names[:1], 3), Close("m0")]
    return Scenario([*steps, Offsets()], topics={"t": 3})


def _isolated(level: str) -> Scenario:
    count = 4 if level == "read_committed" else 6
    return Scenario(
        (
            Produce("a b"),
            Produce("x y", ends="abort"),
            Produce("c d", ends="commit"),
            Open("m"),
            Drain(["m"], count),
            Poll("m", 0),
            Close("m"),
            Offsets(),
        ),
        configs={"share_isolation_level": level},
    )


def _reset(strategy: str, words: str) -> Scenario:
    """Return a scenario in which a group begins to read at the given one of three batches."""
    return Scenario(
        (
            Produce("a b", age_ms=7_200_000),
            Produce("c d", age_ms=1_000),
            Open("m"),
            *((Knock("m"),) if strategy == "latest" else ()),
            Produce("e f"),
            Drain(["m"], len(words.split()), shows_offsets=strategy != "latest"),
            Poll("m", 0),
            Close("m"),
        ),
        configs={"share_auto_offset_reset": strategy},
    )


#: The restart comes last: on a busy machine, Apache Kafka may take too long, which fails every later scenario.
SCENARIOS: dict[str, Scenario] = {
    "accept": Scenario(
        (Produce("a b c"), Open("m"), Poll("m", 3), Acknowledge("m"), Commit("m"), Poll("m", 0), Close("m"), Offsets())
    ),
    "release": Scenario(
        (
            Produce("a b c d"),
            Open("m"),
            Poll("m", 4),
            Acknowledge("m", {"b": "RELEASE", "c": "RELEASE"}),
            Commit("m"),
            Offsets(),
            Poll("m", 2),
            Acknowledge("m", {"c": "RELEASE"}),
            Commit("m"),
            Poll("m", 1),
            Accept("m"),
            Close("m"),
            Offsets(),
        )
    ),
    "reject": Scenario(
        (
            Produce("a b c"),
            Open("m"),
            Poll("m", 3),
            Acknowledge("m", {"a": "REJECT", "b": "REJECT"}),
            Commit("m"),
            Poll("m", 0),
            Close("m"),
            Offsets(),
        )
    ),
    "renew": Scenario((Produce("a b"), Open("m"), Poll("m", 2), Renew("m"), Accept("m"), Close("m"), Offsets())),
    "renewal forbidden": Scenario(
        (Produce("a b"), Open("m"), Poll("m", 2), Renew("m"), Close("m"), Offsets()),
        configs={"share_renew_acknowledge_enable": "false"},
    ),
    "implicit": Scenario(
        (
            Produce("a b c"),
            Open("m", mode="implicit"),
            Poll("m", 3),
            Produce("d"),
            Poll("m", 1),
            Commit("m"),
            Offsets(),
            Produce("e"),
            Poll("m", 1),
            Close("m"),
            Offsets(),
            Open("n"),
            Poll("n", 1),
            Accept("n"),
            Close("n"),
        )
    ),
    "closed before acknowledging": Scenario(
        (Produce("a b c"), Open("m"), Poll("m", 3), Close("m"), Offsets(), Open("n"), Poll("n", 3), Accept("n")),
    ),
    "limited deliveries": Scenario(
        (
            Produce("a b"),
            Open("m"),
            Poll("m", 2),
            Acknowledge("m", {"a": "RELEASE", "b": "RELEASE"}),
            Commit("m"),
            Poll("m", 2),
            Acknowledge("m", {"a": "RELEASE"}),
            Commit("m"),
            Poll("m", 0),
            Close("m"),
            Offsets(),
        ),
        configs={"share_delivery_count_limit": "2"},
    ),
    "delivered one by one at the end": Scenario(
        (
            Produce("a b c d"),
            Open("m"),
            *[
                step
                for count in (4, 4, 2)
                for step in (Poll("m", count), Acknowledge("m", dict.fromkeys("abcd", "RELEASE")), Commit("m"))
            ],
            Drain(["m"], 4),
            Close("m"),
            Offsets(),
        ),
        configs={"share_delivery_count_limit": "5"},
    ),
    "lock runs out": Scenario(
        (
            Produce("a b"),
            Open("slow"),
            Poll("slow", 2),
            Open("quick"),
            Poll("quick", 2),
            Accept("quick"),
            Acknowledge("slow"),
            Close("quick"),
            Close("slow"),
            Offsets(),
        ),
        has_short_locks=True,
    ),
    "member killed": Scenario(
        (
            Produce("a b c"),
            Open("victim"),
            Poll("victim", 3),
            Kill("victim"),
            Open("m"),
            Poll("m", 3),
            Accept("m"),
            Close("m"),
            Offsets(),
        )
    ),
    "group deleted": Scenario(
        (
            Produce("a b"),
            Open("m"),
            Poll("m", 2),
            Delete(),
            Accept("m"),
            Close("m"),
            Delete(),
            Delete(),
            Open("n"),
            Poll("n", 2),
            Accept("n"),
            Close("n"),
            Offsets(),
        )
    ),
    "offsets altered": Scenario(
        (
            Produce("a b c d e"),
            Alter(3),
            Offsets(),
            Open("m"),
            Poll("m", 2),
            Alter(0),
            Accept("m"),
            Close("m"),
            Alter(1),
            Offsets(),
            Open("n"),
            Poll("n", 4),
            Accept("n"),
            Close("n"),
            Alter(9),
            Offsets(),
        )
    ),
    "reset to earliest": _reset("earliest", "a b c d e f"),
    "reset to latest": _reset("latest", "e f"),
    "reset to a duration": _reset("by_duration:PT1H", "c d e f"),
    "committed": _isolated("read_committed"),
    "uncommitted": _isolated("read_uncommitted"),
    "record limit": Scenario(
        (
            Produce("a b c d e f g"),
            Open("m", acquire="record_limit", records=3),
            Poll("m", 3),
            Acknowledge("m", {"b": "RELEASE"}),
            Commit("m"),
            Poll("m", 3),
            Accept("m"),
            Poll("m", 2),
            Accept("m"),
            Close("m"),
            Offsets(),
        )
    ),
    "batches are not divided": Scenario(
        (
            Produce("a b c d"),
            Produce("e f g h"),
            Open("m", records=2),
            Poll("m", 4),
            Accept("m"),
            Poll("m", 4),
            Accept("m"),
            Close("m"),
            Offsets(),
        )
    ),
    "compressed with gzip": _compressed("gzip"),
    "compressed with snappy": _compressed("snappy"),
    "compressed with lz4": _compressed("lz4"),
    "compressed with zstd": _compressed("zstd"),
    "compacted": Scenario(
        (
            Produce("k=a l=b"),
            Produce("k=c m=d"),
            Produce("l=e"),
            Produce("n=f"),
            Open("m"),
            Poll("m", 6),
            Acknowledge("m", dict.fromkeys("abcdef", "RELEASE")),
            Commit("m"),
            Compact("o=g", 2),
            Drain(["m"], 5),
            Close("m"),
            Offsets(),
        ),
        topic_configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001"},
    ),
    "log trimmed": Scenario(
        (
            Produce("a b c"),
            Produce("d e"),
            Open("m"),
            Poll("m", 5),
            Acknowledge("m", dict.fromkeys("abcde", "RELEASE")),
            Commit("m"),
            Trim(2),
            Drain(["m"], 3),
            Close("m"),
            Offsets(),
        )
    ),
    "several topics": Scenario(
        (
            Produce("a b", "t"),
            Produce("c d", "u", 1),
            Produce("e f", "u"),
            Open("m", ["t", "u"]),
            Drain(["m"], 6),
            Subscribe("m", ["u"]),
            Produce("g", "u", 1),
            Drain(["m"], 1),
            Close("m"),
            Offsets(),
        ),
        topics={"t": 1, "u": 2},
    ),
    "two groups": Scenario(
        (
            Produce("a b c"),
            Open("m"),
            Open("n", group="h"),
            Poll("m", 3),
            Poll("n", 3),
            Acknowledge("m", {"a": "RELEASE"}),
            Commit("m"),
            Accept("n"),
            Poll("m", 1),
            Accept("m"),
            Poll("n", 0),
            Close("m"),
            Close("n"),
            Offsets("g"),
            Offsets("h"),
        )
    ),
    "topic denied": Scenario((Produce("a"), Deny("topic"), Open("m"), Poll("m", 1))),
    "group denied": Scenario((Produce("a"), Deny("group"), Open("m"), Poll("m", 1))),
    **{f"rebalanced with {members}": _rebalanced(members) for members in (1, 2, 3, 4)},
    "broker restarted": Scenario(
        (
            Produce("a b c"),
            Produce("d e f"),
            Open("m"),
            Poll("m", 6),
            Acknowledge("m", {"a": "ACCEPT", "b": "RELEASE", "c": "REJECT"}),
            Commit("m"),
            Poll("m", 1),
            Open("victim", group="h", acquire="record_limit", records=4),
            Poll("victim", 4),
            Restart(),
            Acknowledge("m"),
            Drain(["m"], 1),
            Close("m"),
            Offsets(),
            Kill("victim"),
            Open("n", group="h"),
            Drain(["n"], 6),
            Close("n"),
            Offsets("h"),
        )
    ),
}
