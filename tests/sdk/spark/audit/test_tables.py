"""Every table is made of facts, or of tables before it; it has an order that says which row is which; keys are put
together once.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")

from kafkawire.sdk.spark.audit.facts import fact_ddl
from kafkawire.sdk.spark.audit.tables import CLEANED_DDL, TABLES, Tables

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]


def test_nothing_was_noted(spark: Any) -> None:
    made: dict[str, Any] = {}
    tables = Tables(
        spark.createDataFrame([], f"{fact_ddl()}, run int"), made.__getitem__, spark.createDataFrame([], CLEANED_DDL)
    )
    for name, table in TABLES.items():
        made[name] = tables.make(name)
        assert set(table.order) <= set(made[name].columns), name
    keys = tables.keys
    assert keys is tables.keys
    assert keys.is_cached
    keys.unpersist()
    assert [name for name, table in TABLES.items() if table.is_derived] == [list(TABLES)[-1]]
