"""Column names are checked, and every limit allows at least one batch of rows.

Method: pass names that exist, names that do not, and an iterator over names.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.records.engines.shared_rows import COLUMNS, ROWS_BYTES_MAX, ROWS_MAX, checked_columns


def test_names() -> None:
    assert checked_columns(COLUMNS) == set(COLUMNS)
    assert checked_columns(iter(["key"])) == {"key"}
    assert checked_columns([]) == frozenset()
    with pytest.raises(ValueError, match=r"^there is no column Key, topic; a record has key, value, offset, "):
        checked_columns(["key", "topic", "Key"])


def test_limits_fit_into_a_column() -> None:
    assert 1 <= ROWS_BYTES_MAX < 2**31
    assert 1 <= ROWS_MAX < 2**31
