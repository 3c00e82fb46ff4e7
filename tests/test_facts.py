"""A repeated fact is found, and lines that only look like a repetition are ignored.

Method: check one line for each way in which a fact was once stated outside its home.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.facts import FACTS, second_homes
from tools.tidy import Tree

ROOT = Path(__file__).parent.parent

#: the line's file, the line, and a name in the finding
SECOND_HOMES = [
    ("sdk/routing/metadata.py", "_ZERO = bytes(16)", "ZERO_UUID"),
    ("reference_broker/metadata/topics.py", 'NO_ID = b"\\0" * 16', "ZERO_UUID"),
    ("tests/reference_broker/metadata/test_topics.py", "assert topic_id != bytes(16)", "ZERO_UUID"),
    ("reference_broker/storage/checkpoints.py", "return base64.urlsafe_b64encode(value)", "format_uuid"),
    ("sdk/routing/requests.py", "base64.b64decode(text, altchars=b'-_')", "parse_uuid"),
    ("sdk/producer/accumulator.py", "_BATCH_OVERHEAD_BYTES = 61", "BATCH_HEADER_BYTES"),
    ("sdk/records/engines/native.pyx", "    if left < 61:", "BATCH_HEADER_BYTES"),
    ("sdk/records/message_set.py", '_PREFIX = struct.Struct(">qi")', "MESSAGE_V0_OFFSET_AT"),
    ("sdk/transport/stream.py", "key, version, number = unpack('>hhi', frame)", "HEADER_START"),
    ("sdk/producer/sender.py", "_NO_ACKS = 0", "Acks"),
    ("sdk/producer/sender.py", "if options.acks == 0:", "Acks"),
    ("conformance/requests.py", '("ProduceRequest", "acks"): 1,', "Acks"),
    ("sdk/groups/classic_group.py", '_NO_MEMBER_ID = ""', "UNKNOWN_MEMBER_ID"),
    ("sdk/groups/classic_group.py", 'if member_id == "":', "UNKNOWN_MEMBER_ID"),
    ("sdk/groups/classic_group.py", "_NO_GENERATION = -1", "UNKNOWN_GENERATION_ID"),
    ("sdk/groups/consumer_protocol.py", "generation_id: int = -1", "UNKNOWN_GENERATION_ID"),
    ("sdk/client/offset_queries.py", "FetchRequest(replica_id=-1)", "CONSUMER_REPLICA_ID"),
    ("sdk/routing/metadata.py", "_NO_NODE = -1", "NO_LEADER_ID"),
    ("sdk/routing/metadata.py", "if partition.leader_id != -1:", "NO_LEADER_ID"),
    ("tests/kafka/apache.py", 'RELEASE = "4.3.0"', "KAFKA_RELEASE"),
    ("tests/kafka/pom.xml", "<kafka.version>4.3.0</kafka.version>", "KAFKA_RELEASE"),
]

HARMLESS = [
    ("sdk/protocol/uuids.py", "ZERO_UUID = bytes(16)"),
    ("codegen/emit/messages.py", 'DEFAULTS = {"uuid": "bytes(16)"}'),
    ("tests/sdk/protocol/test_uuids.py", "assert bytes(16) == ZERO_UUID"),
    ("sdk/routing/metadata.py", "# the first 61 bytes of Kafka 4.3.0"),
    ("sdk/routing/metadata.py", '"""Return bytes(16), acks=0."""'),
    ("tests/sdk/producer/test_producer.py", "Producer(acks=0)"),
    ("sdk/routing/metadata.py", "BYTES_MAX = 610 + 0x61"),
    ("sdk/routing/metadata.py", "jacks = 1"),
    ("tests/sdk/test_frames.py", "feed(bytes(16) + frame)"),
]


def findings(root: Path, path: str, line: str) -> list[str]:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(line + "\n", "utf-8")
    return [what for _, _, what in second_homes(Tree(root))]


@pytest.mark.parametrize(("path", "line", "name"), SECOND_HOMES)
def test_a_second_home_is_found(tmp_path: Path, path: str, line: str, name: str) -> None:
    (found,) = findings(tmp_path, path, line)
    assert name in found


@pytest.mark.parametrize(("path", "line"), HARMLESS)
def test_harmless_is_left_alone(tmp_path: Path, path: str, line: str) -> None:
    assert findings(tmp_path, path, line) == []


def test_every_fact_has_a_case_and_a_home_that_has_it() -> None:
    named = {name for *_, name in SECOND_HOMES}
    for fact in FACTS:
        assert not named.isdisjoint(fact.names.split(", "))
        text = (ROOT / fact.home).read_text("utf-8")
        assert all(f"{name}" in text for name in fact.names.split(", "))
