"""The option tables on the pages about Spark list every option, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("pyspark.sql", reason="pyspark is not installed: the extra `spark` brings it")

from kafkawire.sdk.spark import schema
from kafkawire.sdk.spark.brokers import options as of_brokers
from kafkawire.sdk.spark.option_values import CLIENT_PREFIX, OptionTable
from kafkawire.sdk.spark.segments import options as of_segments
from kafkawire.sdk.spark.sink import options as of_writing

DOCS = Path(__file__).parents[3] / "docs"

_NAME = re.compile(r"`([^`]+)`")


def table(page: str) -> dict[str, list[str]]:
    """Return the code spans in the description of each option in a page's table."""
    text = (DOCS / f"{page}.md").read_text("utf-8")
    rows = text.partition("| Option | Meaning |\n|---|---|\n")[2].partition("\n\n")[0].splitlines()
    found: dict[str, list[str]] = {}
    for row in rows:
        names, about = row.strip("| ").split(" | ", 1)
        for name in _NAME.findall(names):
            assert name not in found, name
            found[name] = _NAME.findall(about)
    return found


@pytest.mark.parametrize(
    ("page", "options", "is_client"),
    [
        ("spark_segments", of_segments._OPTIONS, False),
        ("spark_brokers", of_brokers._OPTIONS, True),
        ("spark_writing", of_writing._OPTIONS, True),
    ],
)
def test_options(page: str, options: OptionTable, is_client: bool) -> None:
    own = {name for name, _ in options._known.values()}
    clients = {name for name in table(page) if name.startswith(CLIENT_PREFIX)}
    assert table(page).keys() - clients == own
    assert (f"{CLIENT_PREFIX}*" in clients) == is_client


@pytest.mark.parametrize(
    ("page", "extras"),
    [
        ("spark_segments", schema.EXTRAS),
        ("spark_brokers", tuple(name for name in schema.EXTRAS if name not in schema.OF_FILES)),
    ],
)
def test_further_columns(page: str, extras: tuple[str, ...]) -> None:
    assert table(page)["extra"] == [schema.HEADERS, *extras]
