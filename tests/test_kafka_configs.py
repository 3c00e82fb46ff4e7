"""The tool that imports configurations writes what a broker describes; with `--check`, it only compares.

Method: import from a fake broker with one answer; `tests/kafka/test_described_configs.py` compares the tables with a
real broker.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.codegen.configs import ConfigSpec, load_configs
from kafkawire.codegen.import_configs import Answer
from kafkawire.codegen.located import SchemaError
from kafkawire.sdk.protocol.messages.describe_configs import DescribeConfigsResponse
from kafkawire.sdk.protocol.tables.enums import ConfigSource, ConfigType
from tools import kafka_configs

Entry = DescribeConfigsResponse.DescribeConfigsResourceResult
Synonym = DescribeConfigsResponse.DescribeConfigsSynonym


def test_tables_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = {"topic": [Answer("keep.ms", "long", "5")], "broker": [], "group": [], "client_metrics": []}
    path = tmp_path / "configs.yaml"
    monkeypatch.setattr(kafka_configs, "SCHEMAS", tmp_path)
    monkeypatch.setattr(kafka_configs, "_answers", lambda: answers)
    monkeypatch.setattr(kafka_configs, "_page", lambda name: "")
    missing = "topic keep.ms has no about: describe it in our own words in configs.yaml"
    assert kafka_configs.main(["--check"]) == 1
    assert not any(tmp_path.iterdir())
    assert kafka_configs.main([]) == 1
    with pytest.raises(SchemaError, match=r"configs\.yaml:\d+: keep\.ms: about: missing"):
        load_configs(path)
    lines = [line for verb in ("would change", "changed") for line in (f"{verb}  configs.yaml", missing)]
    assert capsys.readouterr().out.splitlines() == lines
    path.write_text(path.read_text().replace("default: 5}", "default: 5, about: how long}"))
    assert load_configs(path)["topic"] == (ConfigSpec("keep.ms", "long", "5", about="how long"),)
    assert kafka_configs.main(["--check"]) == kafka_configs.main([]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("value", "source", "synonyms", "expected"),
    [
        ("1", ConfigSource.DEFAULT_CONFIG, [], Answer("x", "int", "1")),
        ("2", ConfigSource.STATIC_BROKER_CONFIG,
         [Synonym("x", "2", ConfigSource.STATIC_BROKER_CONFIG), Synonym("x", "1", ConfigSource.DEFAULT_CONFIG)],
         Answer("x", "int", "1")),
        ("2", ConfigSource.STATIC_BROKER_CONFIG, [], Answer("x", "int", None)),
        ("1", ConfigSource.DEFAULT_CONFIG, [Synonym("group.x", "1", ConfigSource.DEFAULT_CONFIG)],
         Answer("x", "int", "1", "group.x")),
    ],
)  # fmt: skip
def test_defaults_are_below_what_is_set(
    value: str, source: ConfigSource, synonyms: list[Synonym], expected: Answer
) -> None:
    entry = Entry("x", value, config_source=source, synonyms=synonyms, config_type=ConfigType.INT)
    assert kafka_configs._answer(entry) == expected
