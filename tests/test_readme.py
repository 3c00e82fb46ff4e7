"""The code in the README and in the docstrings of the public modules runs, and the README's numbers were measured.

Method: run the README's Python block unchanged in a separate process, and compare its output with its comments; run the
examples in docstrings, which assert their results, with their module's names. Compare each number in the speed table
with the lowest ratio of a goal in docs/benchmarks.md.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import tomllib
from decimal import ROUND_HALF_UP, Decimal
from importlib import import_module
from pathlib import Path

import pytest

from kafkawire.sdk.protocol.tables.enums import KAFKA_RELEASE

README = Path(__file__).parent.parent / "README.md"
BENCHMARKS = README.parent / "docs" / "benchmarks.md"

#: The first words of the goals behind a row's numbers; the goals end with the peer named in the column's header.
GOALS = {
    "parse a message": ["parse: native"],
    "build a message": ["build: native"],
    "in pure Python: parse / build": ["parse: python", "build: python"],
    "batch of 10 or more records: `append` / `append_many`": [
        "append, 10 records and more:",
        "append_many, 10 records and more:",
    ],
    "batch of 10 or more records: decode to records": ["decode to records, 10 records and more:"],
    "batch of 1,000 or more records: decode to columns": ["decode to columns, 1,000 records and more:"],
    "batch of 1 record: `append` / `append_many` / decode": [
        "append, 1 record:",
        "append_many, 1 record:",
        "decode to records, 1 record:",
    ],
    "import: `kafkawire` / the whole client": ["import:", "import of the whole client:"],
}


def rows(text: str) -> list[list[str]]:
    """Return the table cells in a Markdown text."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]


def measured() -> str:
    """Return the part of the benchmarks page in which `make bench` reports on the goals."""
    _, _, text = BENCHMARKS.read_text("utf-8").partition("<!-- measured: goals -->")
    return text.partition("<!-- end of goals -->")[0]


def speeds() -> tuple[str, list[list[str]]]:
    """Return the paragraph above the README's speed table, and that table's rows."""
    _, _, section = README.read_text("utf-8").partition("\n## How fast\n")
    section = section.partition("\n## ")[0]
    return section.partition("\n|")[0], rows(section)


def test_the_code_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 1
    result = subprocess.run([sys.executable, "-c", blocks[0]], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    stored, record, request = result.stdout.splitlines()
    assert stored.startswith("RecordMetadata(topic='greetings', partition=0, offset=0, timestamp_ms=")
    assert record == "greetings 0 b'en' b'hello' (('tone', b'friendly'),)"
    assert request == "HeartbeatRequest(group_id='g', generation_id=7, member_id='m')"


@pytest.mark.parametrize(
    "name", ["kafkawire.errors", "kafkawire.protocol", "kafkawire.records", "kafkawire.sync", "kafkawire.testing"]
)
def test_the_example_of_a_module_runs(name: str) -> None:
    module = import_module(name)
    lines = (module.__doc__ or "").splitlines()
    example = textwrap.dedent("\n".join(line for line in lines if line.startswith("    ")))
    assert example.count("\n") >= 1
    exec(compile(example, f"the docstring of {name}", "exec"), dict(vars(module)))


def test_it_says_what_each_extra_is_for() -> None:
    _, _, section = README.read_text("utf-8").partition("\n## Install it\n")
    table, _, _ = section.partition("\n## ")
    listed = {extra for row in rows(table) for extra in re.findall(r"`(\w+)`", row[0])}
    project = tomllib.loads((README.parent / "pyproject.toml").read_text("utf-8"))["project"]
    of_developers = {"test", "dev", "peers", "bench", "release"}
    assert listed == set(project["optional-dependencies"]) - of_developers


def test_it_names_the_release_of_the_schemas() -> None:
    assert f"Apache Kafka {KAFKA_RELEASE}" in README.read_text(encoding="utf-8")


def test_the_speeds_were_measured() -> None:
    ratios = {row[0]: Decimal(row[2].rstrip("x")) for row in rows(measured()) if len(row) == 6 and row[2].endswith("x")}
    _, ((_, *peers), _, *table) = speeds()
    assert [row[0] for row in table] == list(GOALS)
    for what, *cells in table:
        for peer, cell in zip(peers, cells, strict=True):
            for number, goal in zip(cell.split(" / "), GOALS[what], strict=True) if cell else ():
                (ratio,) = (
                    ratio
                    for name, ratio in ratios.items()
                    if name.startswith(goal) and peer.removesuffix(" (C)") in name
                )
                shown = Decimal(number.rstrip("x"))
                assert ratio.quantize(shown, ROUND_HALF_UP) == shown, f"{what}, {peer}"


def test_the_speeds_say_where_and_when() -> None:
    above, _ = speeds()
    facts = {row[0]: row[1] for row in rows(measured()) if len(row) == 2}
    assert facts["date"].split()[0] in above
    assert facts["Python"].split(",")[0] in above
    packages = re.findall(r"\b(?:construct|kio|kafka-python|aiokafka) [\d.]*\d", above)
    assert len(packages) == 4
    assert set(packages) <= set(facts["packages"].split(", "))
