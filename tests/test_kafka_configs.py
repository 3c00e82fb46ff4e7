"""The tool that takes over configurations writes what a broker says, and only looks with `--check`.

Method: a broker that says one thing; `tests/kafka/test_described_configs.py` compares the tables with a real one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.codegen.configs import ConfigSpec, load_configs
from kafkawire.codegen.import_configs import Answer
from kafkawire.sdk.protocol.messages.describe_configs import DescribeConfigsResponse
from kafkawire.sdk.protocol.tables.enums import ConfigSource, ConfigType
from tools import kafka_configs

Entry = DescribeConfigsResponse.DescribeConfigsResourceResult
Synonym = DescribeConfigsResponse.DescribeConfigsSynonym


def test_tables_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = {"topic": [Answer("keep.ms", "long", "5", "words")], "broker": [], "group": [], "client_metrics": []}
    monkeypatch.setattr(kafka_configs, "SCHEMAS", tmp_path)
    monkeypatch.setattr(kafka_configs, "_answers", lambda: answers)
    monkeypatch.setattr(kafka_configs, "_page", lambda name: "")
    assert kafka_configs.main(["--check"]) == 1
    assert not any(tmp_path.iterdir())
    assert kafka_configs.main([]) == 0
    assert load_configs(tmp_path / "configs.yaml")["topic"] == (ConfigSpec("keep.ms", "long", "5"),)
    assert kafka_configs.main(["--check"]) == 0
    lines = ["would change  configs.yaml", "would change  config_documentation.yaml"]
    assert capsys.readouterr().out.splitlines() == [*lines, *(f"changed  {line[14:]}" for line in lines)]


@pytest.mark.parametrize(
    ("value", "source", "synonyms", "expected"),
    [
        ("1", ConfigSource.DEFAULT_CONFIG, [], Answer("x", "int", "1", "words")),
        ("2", ConfigSource.STATIC_BROKER_CONFIG,
         [Synonym("x", "2", ConfigSource.STATIC_BROKER_CONFIG), Synonym("x", "1", ConfigSource.DEFAULT_CONFIG)],
         Answer("x", "int", "1", "words")),
        ("2", ConfigSource.STATIC_BROKER_CONFIG, [], Answer("x", "int", None, "words")),
        ("1", ConfigSource.DEFAULT_CONFIG, [Synonym("group.x", "1", ConfigSource.DEFAULT_CONFIG)],
         Answer("x", "int", "1", "words", "group.x")),
    ],
)  # fmt: skip
def test_defaults_are_below_what_is_set(
    value: str, source: ConfigSource, synonyms: list[Synonym], expected: Answer
) -> None:
    entry = Entry(
        "x", value, config_source=source, synonyms=synonyms, config_type=ConfigType.INT, documentation="words"
    )
    assert kafka_configs._answer(entry) == expected
