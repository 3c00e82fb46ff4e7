"""Every table has a source, an order that identifies each row, and documentation; keys are merged once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")

from kafkawire.sdk.spark.audit.facts import fact_ddl
from kafkawire.sdk.spark.audit.tables import LOSSES_DDL, PARTITION_FACTS_DDL, TABLES, Tables

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]

PAGE = Path(__file__).parents[4] / "docs" / "spark_audit.md"


@pytest.fixture(scope="module")
def empty(spark: Any) -> dict[str, Any]:
    """Return all tables of an audit that found nothing, keyed by name."""
    made: dict[str, Any] = {}
    tables = Tables(
        spark.createDataFrame([], f"{fact_ddl()}, run int"),
        made.__getitem__,
        spark.createDataFrame([], PARTITION_FACTS_DDL),
        spark.createDataFrame([], LOSSES_DDL),
    )
    for name in TABLES:
        made[name] = tables.make(name)
    keys = tables.keys
    assert keys is tables.keys
    assert keys.is_cached
    keys.unpersist()
    return made


def test_order(empty: dict[str, Any]) -> None:
    for name, table in TABLES.items():
        assert set(table.order) <= set(empty[name].columns), name
    assert [name for name, table in TABLES.items() if table.is_derived] == list(TABLES)[-2:]


def test_page(empty: dict[str, Any]) -> None:
    """The page lists every table with a description, and under the table's heading, every column with its type."""
    listing, _, sections = PAGE.read_text("utf-8").partition("## Columns of the tables")
    listed = re.findall(r"^\| \[`(\w+)`\]\(#\1\) \| (.+) \|$", listing, re.MULTILINE)
    abouts = {name: table.about for name, table in TABLES.items()}
    assert dict(listed) == abouts
    found: dict[str, list[tuple[str, str]]] = {}
    for section in sections.split("### ")[1:]:
        name = section.partition("\n")[0].strip("`")
        assert f"A row for {abouts[name]}.\n" in section
        columns = found[name] = []
        for names, kinds, meaning in re.findall(r"^\| (`.+?) \| (.+?) \| (.+) \|$", section, re.MULTILINE):
            assert meaning.strip()
            columns += zip(re.findall(r"`(\w+)`", names), kinds.split(", "), strict=True)
    assert found == {name: table.dtypes for name, table in empty.items()}
