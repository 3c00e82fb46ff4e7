"""Files are named as Kafka names them, and only such names are recognized.

Method: compare with literal names.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.storage.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    file_name,
    offset_and_epoch_in,
    offset_in,
)


def test_names_can_be_read_again() -> None:
    name = file_name(500, LOG_SUFFIX)
    assert name == "00000000000000000500.log"
    assert offset_in(name, LOG_SUFFIX) == 500
    assert offset_in(file_name(2**63 - 1, SNAPSHOT_SUFFIX), SNAPSHOT_SUFFIX) == 2**63 - 1
    assert file_name(500) == "0" * 17 + "500"


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000500.timeindex",
        "00000000000000000500.index.deleted",
        "00000000000000000500",
        "500.index",
        "0000000000000000000x.index",
        ".index",
        f"{2**63:020}.index",
        "99999999999999999999.index",
        "0000000000000000000².index",
        "0000000000000000000٣.index",
    ],
)
def test_other_names(name: str) -> None:
    assert offset_in(name, INDEX_SUFFIX) is None


@pytest.mark.parametrize(
    ("name", "offset"),
    [("7.log", 7), (f"{2**63 - 1}.log", 2**63 - 1), (f"{2**63}.log", None), ("0" * 21 + ".log", None), (".log", None)],
)
def test_names_that_people_give(name: str, offset: int | None) -> None:
    assert offset_in(name, LOG_SUFFIX) is None
    assert offset_in(name, LOG_SUFFIX, is_padded=False) == offset


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (f"{7:020}-{3:010}.checkpoint", (7, 3)),
        (f"{2**63 - 1:020}-{2**31 - 1:010}.checkpoint", (2**63 - 1, 2**31 - 1)),
        (f"{7:020}-{2**31:010}.checkpoint", None),
        (f"{2**63:020}-{3:010}.checkpoint", None),
        (f"{7:020}-3.checkpoint", None),
        (f"{7:020}-{3:010}.log", None),
        (f"{7:020}.checkpoint", None),
        ("bootstrap.checkpoint", None),
    ],
)
def test_snapshots_of_cluster_metadata(name: str, found: tuple[int, int] | None) -> None:
    assert offset_and_epoch_in(name) == offset_and_epoch_in(name, is_padded=False) == found


def test_a_snapshot_of_cluster_metadata_by_the_name_that_people_give() -> None:
    assert offset_and_epoch_in(f"7-{3:010}.checkpoint") is None
    assert offset_and_epoch_in(f"7-{3:010}.checkpoint", is_padded=False) == (7, 3)
