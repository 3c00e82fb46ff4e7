"""The protocol between brokers follows the release in `inter.broker.protocol.version`, as in Apache Kafka 3.9."""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.config.protocol_version import (
    NEWEST,
    OLDEST,
    ProtocolVersion,
    peer_versions,
    read_protocol_version,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3.4", OLDEST),
        ("3.5", ProtocolVersion(3, 5, 2)),
        ("3.5.1", ProtocolVersion(3, 5, 2)),
        ("3.5-IV0", ProtocolVersion(3, 5, 0)),
        ("3.9-IV0", NEWEST),
        ("3.3", ProtocolVersion(3, 3, 0)),
        ("4.0-IV1", ProtocolVersion(4, 0, 1)),
        ("3.5-IV3", None),
        ("3", None),
        ("3.5-", None),
        ("new", None),
        ("٣.5", None),
    ],
)
def test_written_versions(text: str, expected: ProtocolVersion | None) -> None:
    assert read_protocol_version(text) == expected


#: A protocol, and the versions of Fetch, ListOffsets and AlterPartition; `MetadataVersion` has the first two.
VERSIONS = [
    ("3.4", (13, 7, 2)),
    ("3.5-IV0", (14, 8, 2)),
    ("3.5-IV1", (15, 8, 3)),
    ("3.6", (15, 8, 3)),
    ("3.7-IV3", (15, 8, 3)),
    ("3.7", (16, 8, 3)),
    ("3.8", (16, 8, 3)),
    ("3.9", (17, 9, 3)),
]


@pytest.mark.parametrize(("text", "expected"), VERSIONS)
def test_versions_of_requests(text: str, expected: tuple[int, int, int]) -> None:
    protocol = read_protocol_version(text)
    assert protocol is not None
    assert peer_versions(protocol) == expected
