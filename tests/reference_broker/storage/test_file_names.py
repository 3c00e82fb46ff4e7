"""Files are named as Kafka names them, and only such names are read.

Method: names written out.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.storage.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    file_name,
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
