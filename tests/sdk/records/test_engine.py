"""Every engine is found by its name, and a missing engine is refused by name.

Method: ask for each available engine, and for one that does not exist.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.engines.selection import ENGINE
from kafkawire.sdk.records import BatchBuilder, RecordBatch, batch_builder_class, record_batch_class, walk
from kafkawire.sdk.records.engines import selection
from tests.sdk.records.conftest import AVAILABLE, batch_of


def test_engines_by_name() -> None:
    for name in AVAILABLE:
        assert isinstance(next(walk(batch_of(), engine=name)), record_batch_class(name))
        assert batch_builder_class(name)().count == 0
    assert RecordBatch in {record_batch_class(name) for name in AVAILABLE}
    for find in (record_batch_class, batch_builder_class):
        with pytest.raises(LocalProtocolError, match=r"'rust' is not available; .*python"):
            find("rust")


def test_the_engine_in_use() -> None:
    assert RecordBatch is record_batch_class(ENGINE)
    assert BatchBuilder is batch_builder_class(ENGINE)


def test_an_engine_that_is_not_built_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    for built, offered in ((None, "python, construct"), (selection, "native, python, construct")):
        monkeypatch.setattr(selection, "built", built)
        with pytest.raises(LocalProtocolError, match=f"'rust' is not available; available engines: {offered}$"):
            record_batch_class("rust")
