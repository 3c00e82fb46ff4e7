"""The identity of a data directory is read as Apache Kafka writes it.

Method: read the handwritten content of a file, and the same content with one property missing.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.storage.damage import DamagedContent
from kafkawire.sdk.storage.meta_properties import (
    WITH_BROKER_ID,
    MetaProperties,
    meta_properties_content,
    parse_meta_properties,
)

KNOWN = MetaProperties("cluster", "7", "directory")
CONTENT = b"cluster.id=cluster\ndirectory.id=directory\nnode.id=7\nversion=1\n"


def test_what_it_says() -> None:
    assert meta_properties_content(KNOWN) == CONTENT
    assert parse_meta_properties(b"#\n#Sat Nov 21 13:39:46 UTC 2026\n" + CONTENT) == KNOWN
    assert parse_meta_properties(b"version=1\nnode.id=7\ncluster.id=cluster\n") == KNOWN._replace(directory_id="")


@pytest.mark.parametrize(
    ("directory_id", "content"),
    [
        ("directory", b"broker.id=7\ncluster.id=cluster\ndirectory.id=directory\nversion=0\n"),
        ("", b"broker.id=7\ncluster.id=cluster\nversion=0\n"),
    ],
)
def test_version_of_a_broker_with_zookeeper(directory_id: str, content: bytes) -> None:
    known = MetaProperties("cluster", "7", directory_id, WITH_BROKER_ID)
    assert meta_properties_content(known) == content
    assert parse_meta_properties(content) == known


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it has no cluster.id and no node.id"),
        (b"cluster.id=\nnode.id=7\n", "it has no cluster.id"),
        (b"cluster.id=c\n", "it has no node.id"),
        (b"cluster.id=c\nbroker.id=7\nversion=1\n", "it has no node.id"),
        (b"cluster.id=c\nnode.id=7\nversion=0\n", "it has no broker.id"),
        (b"cluster.id\n", "no name and value in the line 'cluster.id'"),
    ],
)
def test_damage(content: bytes, reason: str) -> None:
    with pytest.raises(DamagedContent, match=f"^{reason}$"):
        parse_meta_properties(content)
