"""A folder's name says which partition is in it and whether the folder is in use.

Method: read names that Apache Kafka gives, and other names.
"""

from __future__ import annotations

import re

import pytest

from kafkawire.sdk.storage.partitions import (
    FOLDER_PATTERN,
    PartitionFolder,
    folder_of,
    has_folder_name,
    partition_folder,
)

ID = "0a" * 16


@pytest.mark.parametrize("partition", [("t", 0), ("a.b-c_D", 12), ("t-1", 2**31 - 1), ("__cluster_metadata", 0)])
def test_folders(partition: tuple[str, int]) -> None:
    folder = folder_of(*partition)
    assert partition_folder(folder) == PartitionFolder(partition, "")
    found = re.fullmatch(FOLDER_PATTERN, folder)
    assert found is not None
    assert found.groupdict() == {"topic": partition[0], "partition": str(partition[1])}


@pytest.mark.parametrize("set_aside", ["delete", "future", "stray"])
def test_folders_that_are_not_in_use(set_aside: str) -> None:
    assert partition_folder(f"a.b-7.{ID}-{set_aside}") == PartitionFolder(("a.b", 7), set_aside)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "t",
        "t-",
        "-0",
        "t-x",
        f"t-{2**31}",
        "t-00000000000",
        "t-\u0663",
        "t+-0",
        "t-0\n",
        f"t-0.{ID}-gone",
        f"t-0.{ID[1:]}-delete",
    ],
)
def test_other_folders(name: str) -> None:
    assert partition_folder(name) is None


@pytest.mark.parametrize("topic", ["t", "a.b", "x-", "..", "_", "t-0", f"t-0.{ID}-delete"])
def test_names_of_folders(topic: str) -> None:
    assert has_folder_name(topic, 0)
    assert has_folder_name(topic, 2**31 - 1)
    assert not has_folder_name(topic, -1), "the name must not be that of another partition's folder"
    assert not has_folder_name(topic, 2**31)


@pytest.mark.parametrize("topic", ["", "../t", "a/b", "/t", "a b", "\u00e9", "t\n", "\0", "\udc80"])
def test_names_that_no_folder_can_have(topic: str) -> None:
    assert not has_folder_name(topic, 0)
