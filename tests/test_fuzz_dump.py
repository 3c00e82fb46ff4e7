"""The fuzz targets for dumps of stored records notice faults in the product.

Method: replace one part of the product with a faulty one. `tests/test_fuzz_targets.py` runs every target on golden
inputs.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.records.engines import python_lines
from tests.needs import EXTENSION
from tools import fuzz_dump
from tools.fuzz_cases import Case
from tools.fuzz_dump import check_internal, check_lines, internal_inputs
from tools.fuzz_records import record_inputs


@EXTENSION.mark
def test_lines_that_differ_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    (case, *_) = [
        case
        for case in record_inputs()
        if check_lines(case) is None and fuzz_dump._lines("python", case.data, False)[0]
    ]

    class Faulty(python_lines.RecordLines):
        def flush(self) -> None:
            self.put(b"more")
            super().flush()

    monkeypatch.setattr(python_lines, "RecordLines", Faulty)
    assert "engines differ as text" in str(check_lines(case))


def test_json_that_is_none_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def unquoted(engine: str, data: bytes, as_json: bool) -> tuple[bytes, str]:
        return b'{"key":x}', ""

    monkeypatch.setattr(fuzz_dump, "_lines", unquoted)
    with pytest.raises(ValueError, match="Expecting value"):
        check_lines(Case("", b""))


def test_what_decoding_raises_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(*_: Any) -> Any:
        raise KeyError("type")

    (case, *_) = internal_inputs()
    monkeypatch.setattr(fuzz_dump, "decode_record", faulty)
    with pytest.raises(KeyError):
        check_internal(case)
