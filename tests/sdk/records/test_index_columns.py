"""An index's columns are arrays on every engine; `engines/test_python_index_columns.py` compares the engines.

Method: read one file with each key size, and a damaged one.
"""

from __future__ import annotations

import struct
from array import array

import pytest

from kafkawire.sdk.records.index_columns import index_columns


@pytest.mark.parametrize(("form", "key_bytes", "code"), [(">iiii", 4, "i"), (">qiqi", 8, "q")])
def test_arrays(form: str, key_bytes: int, code: str) -> None:
    assert index_columns(struct.pack(form, 1, 5, 2, 6), key_bytes) == (array(code, [1, 2]), array("i", [5, 6]))
    assert index_columns(struct.pack(form, 2, 5, 1, 6), key_bytes) is None
