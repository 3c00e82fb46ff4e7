"""A partition's folder states the topic id as Apache Kafka writes it.

Method: read the handwritten content of a file, then damage it.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.storage.damage import DamagedContent
from kafkawire.sdk.storage.partition_metadata import parse_partition_metadata, partition_metadata_content

CONTENT = b"version: 0\ntopic_id: MTExMTExMTExMTExMTExMQ"


@pytest.mark.parametrize("more", [b"", b"\n", b"\r\n"])
def test_what_it_says(more: bytes) -> None:
    assert partition_metadata_content(b"1" * 16) == CONTENT
    assert parse_partition_metadata(CONTENT + more) == b"1" * 16


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "'' is not a version and a topic id"),
        (bytes(47), r"'(\\x00){40}' is not a version and a topic id"),
        (b"version: 0", "'version: 0' is not a version and a topic id"),
        (b"version: 0\ntopic_id: ", "is not a version and a topic id"),
        (b"version: 1\ntopic_id: MTExMTExMTExMTExMTExMQ", "version 1 is unknown; expected 0"),
        (b"version: 0\ntopic_id: MTExMTExMTExMTExMTExM", "'MTExMTExMTExMTExMTExM' of 21 characters is not a UUID"),
        (b"version: 0\ntopic_id: \xff", "not UTF-8"),
    ],
)
def test_damage(content: bytes, reason: str) -> None:
    with pytest.raises(DamagedContent, match=reason):
        parse_partition_metadata(content)
