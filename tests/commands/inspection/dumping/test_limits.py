"""The command uses little memory, whatever a file contains.

Method: dump files that are small on disk and large in memory, each in a fresh process, and read the process's peak
memory from the kernel.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from kafkawire.commands.inspection.dumping import limits
from kafkawire.sdk.protocol.messages.cluster_metadata.register_broker_record import RegisterBrokerRecord
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.streams_group_topology import (
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.tables.enums import METADATA_FRAME_VERSION
from kafkawire.sdk.records import Compression, MessageSetBuilder
from kafkawire.sdk.records.engines import selection as engines
from kafkawire.sdk.records.engines.shared_lines import DECODED_BYTES_MAX
from kafkawire.sdk.storage.producer_snapshots import ProducerEntry, snapshot_content
from tests.commands.inspection.dumping.dump_bench import batch, segment
from tests.needs import LINUX
from tests.sdk.records.bombs import bomb, headers_of_a_record, small_records
from tests.sdk.records.conftest import batch_of

MEMORY_MAX = 200 * 1024 * 1024


def features(count: int) -> bytes:
    """Return a metadata record of about 1 MB, for a broker with this many features, each as small as possible."""
    start = RegisterBrokerRecord(1)
    start.features = [RegisterBrokerRecord.BrokerFeature("") for _ in range(count)]
    return bytes([METADATA_FRAME_VERSION, 0, 0]) + program(RegisterBrokerRecord, 0).encode(start)


class Content(NamedTuple):
    """The content of a segment, the number of records shown, and the text about the records left out."""

    data: bytes
    records: int
    told: str = ""


def topology(count: int) -> tuple[bytes, bytes]:
    """Return the key and value of a streams group's record with this many minimal copartition groups."""
    groups = [StreamsGroupTopologyValue.CopartitionGroup() for _ in range(count)]
    parts = [StreamsGroupTopologyValue.Subtopology(copartition_groups=groups)]
    value = StreamsGroupTopologyValue(epoch=1, subtopologies=parts)
    key = b"\0\x17" + program(StreamsGroupTopologyKey, 0).encode(StreamsGroupTopologyKey(group_id="g"))
    return key, b"\0\0" + program(StreamsGroupTopologyValue, 0).encode(value)


def contents() -> dict[str, Content]:
    large = limits.BATCH_BYTES_MAX - 1024
    value = b"\x01\x1b\xff" * (large // 3)
    key, topologies = topology(DECODED_BYTES_MAX // 4 - 10)
    old = MessageSetBuilder(1, Compression.GZIP)
    for _ in range(200_000):
        old.append(0, None, b"")
    headers = headers_of_a_record(15_000_000)
    found = {
        "millions of headers": Content(bomb(Compression.ZSTD, headers), 1),
        "too many headers": Content(bomb(Compression.GZIP, 3 * headers), 0, "more than the 33554432 bytes"),
        "millions of records": Content(bomb(Compression.GZIP, small_records(1_500_000), 1_500_000), 1_500_000),
        "a large value": Content(batch(0, value), 1),
        "a large value, compressed": Content(batch(0, bytes(large), compression=Compression.LZ4), 1),
        "a batch over the limit": Content(
            batch(0, bytes(2 * large)), 0, "was not opened, because the limit is 33554432"
        ),
        "old messages": Content(bytes(old.build()), 200_000),
        "many structures": Content(batch(0, features(DECODED_BYTES_MAX // 6 - 10)), 1),
        "many smaller structures": Content(batch_of([(0, key, topologies, ()), (0, key, None, ())]), 2),
        "many smaller structures, compressed": Content(
            batch_of([(0, key, topologies, ()), (0, b"\x7f\xff", bytes(30_000_000), ())], compression=Compression.GZIP),
            2,
        ),
        "a length that lies": Content(
            struct.pack(">qi", 0, 2**31 - 1) + bytes(4) + b"\x02" + bytes(100), 0, "the batch has 2147483659 bytes"
        ),
    }
    if engines.native is None:  # the Python engine would take minutes for the others
        found = {name: found[name] for name in ("a batch over the limit", "a length that lies")}
    return found


#: The peak that the kernel reports for a child process includes the memory of its parent, which is this process.
PROGRAM = """
import sys
from pathlib import Path
from kafkawire.commands.main import main
status = main(sys.argv[1:])
(line,) = [each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("VmHWM:")]
print(line.split()[1], file=sys.stderr)
sys.exit(status)
"""


#: The number of bytes to check at the end of the output.
TAIL_BYTES = 1000


def memory_of(folder: Path, *arguments: str) -> tuple[int, str]:
    """Return a command's peak memory and the end of its output."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    with (folder / "output").open("w+b") as output:
        result = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, check=False)
        output.seek(max(output.seek(0, 2) - TAIL_BYTES, 0))
        tail = output.read().decode()
    assert result.returncode in (0, 1), result.stderr
    return int(result.stderr) * 1024, tail


@pytest.mark.thorough
@LINUX.mark  # peak memory is read from /proc
def test_memory_of_small_files(tmp_path: Path) -> None:
    entries = [ProducerEntry(number, 1, 5, 6, 0, 7, 2, 4) for number in range(182_000)]
    lines = 300_000
    for name, content, told in (
        (f"{0:020}.snapshot", snapshot_content(entries), "producerId: 181999 "),
        (
            "leader-epoch-checkpoint",
            b"0\n%d\n" % lines + b"".join(b"%d %d\n" % (each, each) for each in range(lines))[:1_900_000],
            "damage: ",
        ),
        ("quorum-state", b"[" + b"[]," * 600_000 + b"[]]", "not a JSON object"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        memory, tail = memory_of(tmp_path, "dump", str(path))
        assert memory < MEMORY_MAX, name
        assert told in tail, name


@pytest.mark.thorough
@LINUX.mark  # peak memory is read from /proc
@pytest.mark.parametrize("as_json", [False, True])
def test_memory(tmp_path: Path, as_json: bool) -> None:
    topics = {"many structures": "__cluster_metadata"} | dict.fromkeys(
        ["many smaller structures", "many smaller structures, compressed"], "__consumer_offsets"
    )
    for name, content in contents().items():
        path = segment(tmp_path, content.data, topic=topics.get(name, "t"))
        arguments = ["dump", *(["--json"] if as_json else []), str(path)]
        memory, tail = memory_of(tmp_path, *arguments)
        assert memory < MEMORY_MAX, name
        assert (f'"records":{content.records},' if as_json else f"records: {content.records} ") in tail, name
        assert content.told in tail, name
