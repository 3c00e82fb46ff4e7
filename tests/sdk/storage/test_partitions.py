"""The name of a folder tells which partition is in it, and whether it is in use.

Method: names that Apache Kafka gives, and other names.
"""

from __future__ import annotations

import re

import pytest

from kafkawire.sdk.storage.partitions import FOLDER_PATTERN, PartitionFolder, folder_of, partition_folder

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
