"""Kafka 3.9.1's tools print the same output on three of our brokers as on three of Kafka's, each with a real ZooKeeper.

Method: run the same commands in the same order on both clusters, with the same topics, and compare exit status and
output line by line, errors included. The tests choose the topics' replicas, since Kafka would choose them at random.
Values that necessarily differ are masked: see `told_commands.py`, and the masks of individual commands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.kafka.cluster_pair import ClusterOfThree, our_cluster, their_cluster
from tests.kafka.told_commands import Action, Command, Masks, Step, told
from tests.kafka.tool_runner import ToolRunner
from tests.kafka.zookeeper import ZOOKEEPER_RELEASE

pytestmark = pytest.mark.timeout(600)

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"
DIRS = "org.apache.kafka.tools.LogDirsCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
DELETE = "org.apache.kafka.tools.DeleteRecordsCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
VERSIONS = "kafka.admin.BrokerApiVersionsCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
ACLS = "kafka.admin.AclCommand"
METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
PRODUCER = "kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


def plan(*parts: tuple[str, int, list[int]], directories: list[str] | None = None) -> str:
    """Return a reassignment file: topic, partition and replicas of each entry."""
    more = {} if directories is None else {"log_dirs": directories}
    entries = [{"topic": topic, "partition": number, "replicas": ids, **more} for topic, number, ids in parts]
    return json.dumps({"version": 1, "partitions": entries})


def places(*parts: tuple[str, int], offsets: tuple[int, ...] = ()) -> str:
    """Return the file for an election, or for deleting records before offsets."""
    entries = [{"topic": topic, "partition": number} for topic, number in parts]
    deletions = [entry | {"offset": offset} for entry, offset in zip(entries, offsets, strict=False)]
    return json.dumps({"version": 1, "partitions": deletions or entries})


#: The files that commands read, keyed by name; `@NAME` in a command stands for the file's path.
FILES = {
    # For calls that should time out early.
    "hasty": "request.timeout.ms=3000\ndefault.api.timeout.ms=4000\n",
    "topics": json.dumps({"version": 1, "topics": [{"topic": "move"}]}),
    "no-topics": json.dumps({"version": 1, "topics": [{"topic": "none"}]}),
    "move": plan(("move", 0, [3, 2]), ("move", 1, [1, 3])),
    "move-slowly": plan(("move", 0, [1, 2])),
    "cut": '{"version":1,"partitions":',
    "no-replicas": plan(("move", 0, [])),
    "same-replicas": plan(("move", 0, [1, 1])),
    "strange-broker": plan(("move", 0, [1, 9])),
    "strange-topic": plan(("none", 0, [1, 2])),
    "strange-partition": plan(("move", 7, [1, 2])),
    "twice": plan(("move", 0, [1, 2]), ("move", 0, [1, 3])),
    "newer": '{"version":2,"partitions":[]}',
    "nothing": plan(),
    "directories": plan(("move", 0, [3, 2]), directories=["any", "/nowhere"]),
    "held": plan(("held", 0, [1, 2])),
    "held-again": plan(("held", 0, [2])),
    "elect": places(("elect", 0), ("elect", 1)),
    "elect-strangers": places(("none", 0), ("elect", 7)),
    "elect-twice": places(("elect", 0), ("elect", 0)),
    "elect-none": '{"odd":[]}',
    "delete": places(("records", 0), offsets=(3,)),
    "delete-too-many": places(("records", 0), offsets=(300,)),
    "delete-before": places(("records", 0), offsets=(-7,)),
    "delete-twice": places(("records", 0), ("records", 0), offsets=(1, 2)),
    "reset": "records,0,4\n",
}

LINES = "".join(f"k{number}:v{number}\n" for number in range(10))
KEYED = "--property parse.key=true --property key.separator=:"
READERS = "--group readers"

ON_ONE = "--entity-type topics --entity-name configured"
ON_ALL = "--entity-type brokers --entity-default"


def on_broker(broker_id: object) -> str:
    return f"--entity-type brokers --entity-name {broker_id}"


def without(text: str) -> str:
    """Return a regular expression that matches output without a text, since a broker may learn late that it is gone."""
    return rf"(?s)\A(?!.*{re.escape(text)})"


#: Kafka has three ways of reporting where a call was when it timed out.
CALLS: Masks = ((r"TimeoutException: .*", "TimeoutException"),)
#: Either the client or the broker may time out first.
TIMED_OUT: Masks = ((r"Call\(.*attempt\(s\)|The request timed out\.", "TIMED OUT"),)
#: How records are grouped into batches is random.
SIZES: Masks = ((r'("size":)[1-9]\d*', r"\1SIZE"),)
PROPOSED: Masks = ((r"(Proposed partition reassignment configuration\n).*", r"\1PROPOSED"),)
COORDINATOR: Masks = ((r"broker-\d  \(\d\)", "COORDINATOR"),)
SPEED: Masks = (
    (r"\d+\.\d+ (records/sec|ms)", r"N \1"),
    (r"\(\d+\.\d+ MB", "(N MB"),
    (r"\d+ ms (\d+th|99\.9)", r"N ms \1"),
)
OF_COORDINATOR: Masks = (
    (r"^(perf +\t)\d", r"\1COORDINATOR"),
    (r"^\d(?= +\tperf)", "COORDINATOR"),
    (r"\t\d{13} *\t\d+ *", "\tTIMES"),
)

#: Each list is one test.
SEQUENCES: dict[str, list[Step]] = {
    "topics are created, described and deleted": [
        Command(
            TOPICS,
            "--create --topic one --replica-assignment 1:2:3,2:3:1,3:1:2"
            " --config retention.ms=7200000 --config cleanup.policy=compact",
        ),
        Command(TOPICS, "--create --topic one"),
        Command(TOPICS, "--create --topic one --if-not-exists"),
        Command(TOPICS, "--create --topic wide --replication-factor 4 --partitions 1"),
        Command(TOPICS, "--create --topic none --replication-factor 0"),
        Command(TOPICS, "--create --topic none --partitions 0"),
        Command(TOPICS, "--create --topic one/other"),
        Command(TOPICS, "--create --topic one.two --partitions 1"),
        Command(TOPICS, "--create --topic one_two --partitions 1"),
        Command(TOPICS, "--create --topic __cluster_metadata --partitions 1"),
        Command(TOPICS, "--create --topic uneven --replica-assignment 1:2,3"),
        Command(TOPICS, "--create --topic twice --replica-assignment 1:1"),
        Command(TOPICS, "--create --topic odd --config no.such=1"),
        Command(TOPICS, "--create --topic odd --config cleanup.policy=odd"),
        Command(TOPICS, "--create --topic odd --config retention.ms=odd"),
        Command(TOPICS, "--create --topic odd --config min.insync.replicas=0"),
        Command(TOPICS, "--create --topic odd --config min.compaction.lag.ms=9 --config max.compaction.lag.ms=3"),
        Command(TOPICS, "--create --topic far --replica-assignment 7:8 --command-config @hasty", masks=TIMED_OUT),
        Command(TOPICS, "--create --topic far --replica-assignment 7:1"),
        Command(TOPICS, "--describe --topic far"),
        Command(TOPICS, "--describe --topic none"),
        Command(TOPICS, "--describe --topic one"),
        Command(TOPICS, "--describe --topics-with-overrides"),
        Command(TOPICS, "--delete --topic none"),
        Command(TOPICS, "--delete --topic none --if-exists"),
        Command(TOPICS, "--delete --topic one.two"),
        Command(TOPICS, "--delete --topic one"),
    ],
    "topics get partitions": [
        Command(TOPICS, "--create --topic grown --replica-assignment 1:2:3,2:3:1"),
        Command(TOPICS, "--describe --topic grown", until=r"Partition: 1.*Isr: 2,3,1"),
        Command(TOPICS, "--alter --topic grown --partitions 3 --replica-assignment 1:2:3,2:3:1,3:1:2"),
        Command(TOPICS, "--describe --topic grown", until=r"Partition: 2.*Isr: 3,1,2"),
        Command(TOPICS, "--alter --topic grown --partitions 2"),
        Command(TOPICS, "--alter --topic grown --partitions 3"),
        Command(TOPICS, "--alter --topic grown --partitions 0"),
        Command(TOPICS, "--alter --topic none --partitions 5"),
        Command(TOPICS, "--alter --topic none --partitions 5 --if-exists"),
        Command(TOPICS, "--alter --topic grown --partitions 4 --replica-assignment 1:2:3,2:3:1,3:1:2"),
        Command(TOPICS, "--alter --topic grown --partitions 4 --replica-assignment 1:2:3,2:3:1,3:1:2,1:2"),
        Command(TOPICS, "--alter --topic grown --partitions 4 --replica-assignment 1:2:3,2:3:1,3:1:2,1:2:7"),
        Command(TOPICS, "--alter --topic grown --partitions 4 --replica-assignment 1:2:3,2:3:1,3:1:2,8:9:7"),
        Command(TOPICS, "--alter --topic grown --partitions 5 --replica-assignment 1:2:3,2:3:1,3:1:2,1:2:3"),
        Command(TOPICS, "--delete --topic grown"),
    ],
    "configurations of topics": [
        Command(TOPICS, "--create --topic configured --replica-assignment 1:2:3"),
        Command(CONFIGS, f"--alter {ON_ONE} --add-config segment.bytes=2097152,retention.bytes=1000000"),
        Command(CONFIGS, f"--describe {ON_ONE}", until="segment.bytes"),
        Command(CONFIGS, f"--alter {ON_ONE} --delete-config segment.bytes"),
        Command(CONFIGS, f"--alter {ON_ONE} --delete-config no.such"),
        Command(CONFIGS, f"--alter {ON_ONE} --add-config cleanup.policy=[compact,delete],min.insync.replicas=2"),
        Command(CONFIGS, f"--describe {ON_ONE}", until="compact"),
        Command(CONFIGS, f"--alter {ON_ONE} --add-config compression.type=odd"),
        Command(CONFIGS, f"--alter {ON_ONE} --add-config no.such=1"),
        Command(CONFIGS, f"--alter {ON_ONE} --add-config min.insync.replicas=0"),
        Command(CONFIGS, f"--alter {ON_ONE} --add-config retention.ms=odd"),
        Command(CONFIGS, f"--alter {ON_ONE} --add-config remote.storage.enable=true"),
        Command(CONFIGS, f"--alter {ON_ONE} --add-config min.compaction.lag.ms=9,max.compaction.lag.ms=3"),
        Command(CONFIGS, "--alter --entity-type topics --entity-name none --add-config retention.ms=1"),
        Command(CONFIGS, "--describe --entity-type topics --entity-name none"),
        Command(TOPICS, "--delete --topic configured"),
    ],
    "configurations of brokers": [
        Command(CONFIGS, f"--alter {on_broker(3)} --add-config log.retention.ms=3600000,log.cleaner.threads=2"),
        Command(CONFIGS, f"--describe {on_broker(3)}", until="log.retention.ms"),
        Command(CONFIGS, f"--alter {on_broker(3)} --add-config num.partitions=9"),
        Command(CONFIGS, f"--alter {on_broker(3)} --add-config broker.id=7"),
        Command(CONFIGS, f"--alter {on_broker(3)} --add-config log.retention.ms=odd"),
        Command(CONFIGS, f"--alter {on_broker(3)} --add-config num.io.threads=100"),
        Command(CONFIGS, f"--alter {on_broker(3)} --add-config num.io.threads=1"),
        Command(CONFIGS, f"--alter {on_broker(3)} --delete-config log.retention.ms,log.cleaner.threads"),
        Command(CONFIGS, f"--alter {on_broker(3)} --delete-config log.retention.ms"),
        Command(CONFIGS, f"--describe {on_broker(3)}", until=without("log.retention.ms")),
        Command(CONFIGS, f"--alter {ON_ALL} --add-config log.segment.bytes=30000000,min.insync.replicas=2"),
        Command(CONFIGS, f"--describe {ON_ALL}", until="min.insync.replicas"),
        Command(CONFIGS, f"--describe {on_broker(2)}"),
        Command(CONFIGS, f"--alter {ON_ALL} --add-config listeners=x"),
        Command(CONFIGS, f"--alter {ON_ALL} --add-config num.replica.fetchers=3"),
        Command(CONFIGS, f"--alter {ON_ALL} --add-config message.max.bytes=-1"),
        Command(CONFIGS, f"--alter {ON_ALL} --delete-config log.segment.bytes,min.insync.replicas"),
        Command(CONFIGS, f"--describe {ON_ALL}", until=without("min.insync.replicas")),
        Command(CONFIGS, f"--describe {on_broker(7)} --command-config @hasty", masks=CALLS),
        Command(CONFIGS, f"--describe {on_broker('x')}"),
        Command(CONFIGS, "--describe --entity-type client-metrics --entity-name m"),
        Command(CONFIGS, "--alter --entity-type client-metrics --entity-name m --add-config interval.ms=1000"),
    ],
    "replicas are moved": [
        Command(TOPICS, "--create --topic move --replica-assignment 1:2,2:1"),
        Command(REASSIGN, "--generate --topics-to-move-json-file @topics --broker-list 1,2,3", masks=PROPOSED),
        Command(REASSIGN, "--generate --topics-to-move-json-file @topics --broker-list 1"),
        Command(REASSIGN, "--generate --topics-to-move-json-file @no-topics --broker-list 1,2,3"),
        Command(REASSIGN, "--list"),
        Command(REASSIGN, "--execute --reassignment-json-file @move"),
        Command(REASSIGN, "--verify --reassignment-json-file @move", until="(?s)0 is completed.*1 is completed"),
        Command(TOPICS, "--describe --topic move", until=r"(?s)Isr: [23],[23].*Isr: [13],[13]"),
        Command(REASSIGN, "--execute --reassignment-json-file @move-slowly --throttle 1000000"),
        Command(CONFIGS, "--describe --entity-type topics --entity-name move", until="throttled"),
        Command(REASSIGN, "--verify --preserve-throttles --reassignment-json-file @move-slowly", until="is completed"),
        Command(REASSIGN, "--verify --reassignment-json-file @move-slowly"),
        Command(CONFIGS, "--describe --entity-type topics --entity-name move", until=without("throttled")),
        Command(CONFIGS, f"--describe {on_broker(1)}"),
        *(
            Command(REASSIGN, f"--execute --reassignment-json-file @{name}")
            for name in (
                *("cut", "no-replicas", "same-replicas", "strange-broker", "strange-topic", "strange-partition"),
                *("twice", "newer", "nothing", "directories"),
            )
        ),
        Command(REASSIGN, "--verify --reassignment-json-file @move", until="0 is completed"),
        Command(REASSIGN, "--verify --reassignment-json-file @strange-topic"),
        Command(REASSIGN, "--verify --reassignment-json-file @strange-partition"),
        Command(REASSIGN, "--cancel --reassignment-json-file @move"),
        Command(DIRS, "--describe --topic-list move"),
        Command(DIRS, "--describe --topic-list none --broker-list 1"),
        Command(DIRS, "--describe --broker-list 9"),
        Command(TOPICS, "--delete --topic move"),
    ],
    "a broker is gone": [
        Command(TOPICS, "--create --topic elect --replica-assignment 1:2:3,2:3:1,3:1:2"),
        Command(TOPICS, "--create --topic alone --replica-assignment 3"),
        Command(TOPICS, "--create --topic held --replica-assignment 3"),
        Command(ELECT, "--election-type preferred --topic elect --partition 0"),
        Command(ELECT, "--election-type unclean --topic elect --partition 0"),
        Command(ELECT, "--election-type preferred --topic none --partition 0"),
        Command(ELECT, "--election-type preferred --all-topic-partitions"),
        *(
            Command(ELECT, f"--election-type preferred --path-to-json-file @{name}")
            for name in ("elect", "elect-strangers", "elect-twice", "elect-none")
        ),
        Action("stop", 3),
        Command(TOPICS, "--describe --topic elect", until=r"(?s)Partition: 2\tLeader: 1.*Isr: 1,2\t"),
        Command(TOPICS, "--describe --topic alone", until="Leader: none"),
        Command(TOPICS, "--describe --topic held", until="Leader: none"),
        Command(TOPICS, "--describe --under-replicated-partitions --topic elect"),
        Command(TOPICS, "--describe --at-min-isr-partitions --topic alone"),
        Command(TOPICS, "--describe --under-min-isr-partitions --topic alone"),
        Command(TOPICS, "--describe --unavailable-partitions --topic alone"),
        Command(ELECT, "--election-type preferred --topic elect --partition 2"),
        Command(ELECT, "--election-type unclean --topic alone --partition 0"),
        Command(ELECT, "--election-type preferred --topic alone --partition 0"),
        Command(OFFSETS, "--topic alone --command-config @hasty", masks=CALLS),
        Command(DIRS, "--describe --topic-list elect"),
        Command(TOPICS, "--create --topic four --replication-factor 3 --partitions 1"),
        Command(TOPICS, "--create --topic four --replica-assignment 1:3"),
        Command(TOPICS, "--alter --topic elect --partitions 4"),
        Command(REASSIGN, "--execute --reassignment-json-file @held"),
        Command(REASSIGN, "--list"),
        Command(REASSIGN, "--verify --reassignment-json-file @held"),
        Command(REASSIGN, "--execute --reassignment-json-file @held-again"),
        Command(REASSIGN, "--execute --additional --reassignment-json-file @held-again"),
        Command(REASSIGN, "--list"),
        Command(TOPICS, "--describe --topic held", until="Adding Replicas: 2\t"),
        Command(TOPICS, "--alter --topic held --partitions 4"),
        Command(REASSIGN, "--cancel --preserve-throttles --reassignment-json-file @held-again"),
        Command(REASSIGN, "--cancel --preserve-throttles --reassignment-json-file @held-again"),
        Command(REASSIGN, "--list"),
        Command(REASSIGN, "--execute --reassignment-json-file @held"),
        Action("restart", 3),
        Command(REASSIGN, "--verify --reassignment-json-file @held", until="is completed"),
        Command(TOPICS, "--describe --topic elect", until=r"(?s)Partition: 0.*Isr: 1,2,3.*Isr: 2,1,3.*Isr: 1,2,3"),
        Command(ELECT, "--election-type preferred --topic elect --partition 2"),
        Command(TOPICS, "--describe --topic elect", until=r"Partition: 2\tLeader: 3"),
        *(Command(TOPICS, f"--delete --topic {topic}") for topic in ("elect", "alone", "held", "four")),
    ],
    "records, groups and transactions": [
        Command(TOPICS, "--create --topic records --replica-assignment 1:2:3"),
        Command(TOPICS, "--create --topic beside --replica-assignment 1:2:3"),
        Command(PRODUCER, f"--topic records {KEYED}", LINES),
        Command(PRODUCER, f"--topic records {KEYED} --compression-codec zstd --request-required-acks 1", LINES),
        Command(OFFSETS, "--topic records"),
        Command(OFFSETS, "--topic records --time earliest"),
        Command(OFFSETS, "--topic records --time latest-tiered"),
        Command(OFFSETS, "--topic records --time 1"),
        Command(OFFSETS, "--topic none"),
        Command(OFFSETS, "--topic-partitions records:0-2 --exclude-internal-topics"),
        Command(DIRS, "--describe --topic-list records", until=r'(?:"offsetLag":0.*){3}', masks=SIZES),
        Command(
            CONSUMER,
            f"--topic records --from-beginning --timeout-ms 60000 --max-messages 20 {READERS}"
            " --property print.key=true --property print.offset=true",
        ),
        Command(GROUPS, "--list --state"),
        Command(GROUPS, f"--describe {READERS}"),
        Command(GROUPS, f"--describe {READERS} --state", masks=COORDINATOR),
        Command(GROUPS, f"--describe {READERS} --members --verbose"),
        Command(GROUPS, "--describe --group none"),
        Command(GROUPS, f"--reset-offsets {READERS} --topic records --to-offset 2 --dry-run"),
        Command(GROUPS, f"--reset-offsets {READERS} --topic records:0 --shift-by 300 --execute"),
        Command(GROUPS, f"--reset-offsets {READERS} --topic none --to-earliest --execute"),
        Command(GROUPS, f"--reset-offsets {READERS} --from-file @reset --execute"),
        Command(GROUPS, f"--describe {READERS}"),
        # Kafka 3.9 deletes a group with its last offset; our coordinator, like Kafka 4's, does so shortly afterwards.
        Command(GROUPS, f"--reset-offsets {READERS} --topic beside --to-earliest --execute"),
        Command(GROUPS, f"--delete-offsets {READERS} --topic records:0"),
        Command(GROUPS, f"--delete-offsets {READERS} --topic records:9"),
        Command(GROUPS, f"--delete-offsets {READERS} --topic none"),
        Command(GROUPS, f"--delete {READERS} --group none"),
        Command(GROUPS, "--list"),
        Command(DELETE, "--offset-json-file @delete"),
        Command(DELETE, "--offset-json-file @delete-too-many"),
        Command(DELETE, "--offset-json-file @delete-before"),
        Command(DELETE, "--offset-json-file @delete-twice"),
        Command(OFFSETS, "--topic records --time earliest"),
        Command(
            PERFORMANCE,
            "--topic records --num-records 50 --record-size 10 --throughput -1"
            " --transactional-id perf --transaction-duration-ms 100000 --producer-props bootstrap.servers=ADDRESSES",
            masks=SPEED,
        ),
        Command(TRANSACTIONS, "list", until="CompleteCommit", masks=(*OF_COORDINATOR, (r"\t\d+ +\t", "\tID\t"))),
        Command(
            TRANSACTIONS, "describe --transactional-id perf", masks=(*OF_COORDINATOR, (r"perf( +\t)\d+ *", r"perf\1ID"))
        ),
        Command(TRANSACTIONS, "describe --transactional-id none"),
        Command(TRANSACTIONS, "find-hanging --broker-id 1"),
        Command(TRANSACTIONS, "abort --topic records --partition 0 --start-offset 3"),
        Command(TOPICS, "--delete --topic records"),
        Command(TOPICS, "--delete --topic beside"),
    ],
    "what a cluster with ZooKeeper does not have": [
        Command(FEATURES, "describe"),
        Command(FEATURES, "upgrade --metadata 3.9"),
        Command(FEATURES, "upgrade --feature kraft.version=1"),
        Command(FEATURES, "disable --feature odd"),
        Command(QUORUM, "describe --status"),
        Command(CLUSTER, "cluster-id --bootstrap-server ADDRESSES"),
        Command(CLUSTER, "unregister --bootstrap-server ADDRESSES --id 3"),
        Command(ACLS, "--list"),
        Command(ACLS, "--add --allow-principal User:a --operation Read --topic any"),
        Command(METRICS, "--list"),
        Command(METRICS, "--describe --name m"),
        Command(METRICS, "--alter --name m --interval 1000"),
    ],
}


class Side(NamedTuple):
    """A cluster, and the runner for its tools."""

    cluster: ClusterOfThree
    tools: ToolRunner


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[Side, Side]]:
    """Kafka's side, and ours; each test leaves all brokers running."""
    with ExitStack() as stack, ThreadPoolExecutor(2) as both:
        tools = [stack.enter_context(ToolRunner(ZOOKEEPER_RELEASE)) for _ in range(2)]
        clusters = [their_cluster(), our_cluster()]
        begun = [both.submit(cluster.__enter__) for cluster in clusters]
        for cluster, each in zip(clusters, begun, strict=True):
            if each.exception() is None:  # `exception` waits for the brokers to start
                stack.push(cluster)
        theirs, ours = (each.result() for each in begun)
        yield Side(theirs, tools[0]), Side(ours, tools[1])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files that commands read."""
    folder = tmp_path_factory.mktemp("files")
    written = {name: folder / name for name in FILES}
    for name, path in written.items():
        path.write_text(FILES[name])
    return written


@pytest.mark.parametrize("steps", SEQUENCES.values(), ids=[name.replace(" ", "-") for name in SEQUENCES])
def test_tools_say_the_same(sides: tuple[Side, Side], files: dict[str, Path], steps: list[Step]) -> None:
    with ThreadPoolExecutor(2) as both:
        for step in steps:
            on_kafka, on_ours = both.map(lambda side, step=step: told(side.cluster, side.tools, step, files), sides)
            assert on_ours == on_kafka, step


def usable(side: Side) -> dict[int, dict[str, str]]:
    """Return the version of each API that the tool's client would use with each broker."""
    status, lines = told(side.cluster, side.tools, Command(VERSIONS, ""), {})
    assert status == 0
    found: dict[int, dict[str, str]] = {}
    versions: dict[str, str] = {}
    for line in lines:
        if line.startswith("broker-"):
            versions = found[int(line.split()[2])] = {}
        elif "[usable: " in line:
            versions[line.split("(")[0].strip()] = line.partition("[usable: ")[2].rstrip("],")
    return found


def test_the_client_of_the_tools_uses_the_same_versions(sides: tuple[Side, Side]) -> None:
    on_kafka, on_ours = map(usable, sides)
    assert on_ours.keys() == on_kafka.keys()
    for broker_id, versions in on_ours.items():
        shared = versions.keys() & on_kafka[broker_id].keys()
        assert {name: versions[name] for name in shared} == {name: on_kafka[broker_id][name] for name in shared}
