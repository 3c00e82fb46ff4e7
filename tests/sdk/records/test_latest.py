"""The current engine's class is exported; `engines/test_python_latest.py` tests both engines.

Method: compare the exported class with the engine's.
"""

from __future__ import annotations

from kafkawire.sdk.records.engines import python_latest, selection
from kafkawire.sdk.records.latest import LatestRecords


def test_the_engine_in_use() -> None:
    assert LatestRecords is (
        python_latest.LatestRecords if selection.native is None else selection.native.LatestRecords
    )
