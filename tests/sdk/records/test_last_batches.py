"""The current engine's function is exported; `engines/test_python_last_batches.py` tests both engines.

Method: compare the exported function with the engine's.
"""

from __future__ import annotations

from kafkawire.sdk.records.engines import python_last_batches, selection
from kafkawire.sdk.records.last_batches import last_batches


def test_the_engine_in_use() -> None:
    assert last_batches is (
        python_last_batches.last_batches if selection.native is None else selection.native.last_batches
    )
