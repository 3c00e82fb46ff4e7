"""Facts about configurations are imported from a release, our own texts stay, and unknown configurations are reported.

Method: import a small release's answers and pages, in the form of Kafka's output.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kafkawire.codegen.configs import ConfigSpec, HereSpec
from kafkawire.codegen.dump import dump_configs
from kafkawire.codegen.import_configs import Answer, updated_configs
from kafkawire.codegen.located import SchemaError

ANSWERS = {
    "topic": [Answer("keep.ms", "long", "5"), Answer("alone", "list", "")],
    "broker": [Answer("log.keep.ms", "long", None)],
    "group": [Answer("wait.ms", "int", "3", "log.keep.ms")],
    "client_metrics": [],
}
ROW = "<tr><th>{}:</th><td>{}</td></tr>\n"


def page(name: str, valid: str = "", update: str = "", server: str = "") -> str:
    cells = {"Type": "long", "Default": "5 (5 ms)", "Valid Values": valid, "Importance": "high"}
    cells |= {"Update Mode": update} if update else {}
    cells |= {"Server Default Property": server} if server else {}
    rows = "".join(ROW.format(*cell) for cell in cells.items())
    return f'<li>\n<h4><a id="{name}"></a>…</h4>\n<p>text</p>\n<table><tbody>\n{rows}</tbody></table>\n</li>\n'


def pages(valid: str = "[-1,...]") -> dict[str, str]:
    topic = page("keep.ms", valid, server="log.keep.ms") + page("alone", server="null")
    return {"topic": topic, "broker": page("log.keep.ms", update="cluster-wide")}


def imported(folder: Path, valid: str = "[-1,...]") -> dict[str, tuple[ConfigSpec, ...]]:
    return updated_configs(ANSWERS, pages(valid), folder / "configs.yaml")


def test_facts_come_and_ours_stays(tmp_path: Path) -> None:
    found = imported(tmp_path)
    assert found["topic"] == (
        ConfigSpec("alone", "list", "", importance="high"),
        ConfigSpec("keep.ms", "long", "5", min=-1, importance="high", broker="log.keep.ms"),
    )
    assert found["broker"] == (ConfigSpec("log.keep.ms", "long", importance="high", update="cluster-wide"),)
    assert found["group"] == (ConfigSpec("wait.ms", "int", "3", broker="log.keep.ms"),)
    ours = {
        resource: tuple(replace(spec, here=HereSpec(), about="ours") for spec in specs)
        for resource, specs in found.items()
    }
    (tmp_path / "configs.yaml").write_text(dump_configs(ours))
    again = imported(tmp_path, "[0,...,9]")
    assert again["topic"][1] == ConfigSpec(
        "keep.ms", "long", "5", min=0, max=9, importance="high", broker="log.keep.ms", here=HereSpec(), about="ours"
    )


def test_kinds_that_no_broker_lists_stay(tmp_path: Path) -> None:
    rate = ConfigSpec("rate", "long", "9", min=0, importance="medium", about="ours")
    (tmp_path / "configs.yaml").write_text(dump_configs({"running_broker": (rate,)}))
    assert imported(tmp_path)["running_broker"] == (rate,)


@pytest.mark.parametrize(
    ("valid", "fields"),
    [
        ("[1,...,9] or -1", {"min": 1, "max": 9, "also": -1}),
        ("[0.5,...,1]", {"min": 0.5, "max": 1}),
        ("", {}),
    ],
)
def test_ranges(tmp_path: Path, valid: str, fields: dict[str, float]) -> None:
    spec = imported(tmp_path, valid)["topic"][1]
    expected: dict[str, float | None] = dict.fromkeys(("min", "max", "also"))
    assert {key: getattr(spec, key) for key in expected} == expected | fields


@pytest.mark.parametrize(
    ("valid", "field", "value"),
    [
        ("[a, b]", "one_of", ("a", "b")),
        ("(case insensitive) [A, B]", "any_case", True),
        ("non-empty string", "rule", "not_empty"),
        ("[partitionId]:[brokerId],[partitionId]:[brokerId],...", "rule", "partition_replicas"),
    ],
)
def test_texts(tmp_path: Path, valid: str, field: str, value: object) -> None:
    answers = {**ANSWERS, "topic": [Answer("keep.ms", "string", "a")]}
    assert getattr(updated_configs(answers, pages(valid), tmp_path / "configs.yaml")["topic"][0], field) == value


def test_what_nobody_has_thought_of_is_named(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"keep\.ms: no rule expresses 'every second Tuesday'; add one"):
        imported(tmp_path, "every second Tuesday")
