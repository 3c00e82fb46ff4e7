"""Configuration tables are read exactly and written back unchanged, and mistakes are reported.

Method: read a small table with every key, variants with one mistake each, and Kafka's tables, which `tests/kafka/`
compares with Kafka.
"""

from __future__ import annotations

import pytest

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.configs import RESOURCES, ConfigSpec, HereSpec, load_configs
from kafkawire.codegen.dump import dump_configs
from kafkawire.codegen.located import SchemaError
from tests.codegen.conftest import Write

CONFIGS = """\
configs:
  topic:
    - {name: keep.ms, type: long, default: 5, min: -1, broker: log.keep.ms, here: {}, about: how long}
    - {name: ways, type: list, default: "", one_of: [on, off], importance: low, about: which ways}
  broker:
    - {name: log.keep.ms, type: long, update: cluster-wide, synonyms: [log.keep.hours], here: {}, about: how long}
    - {name: log.keep.hours, type: int, default: 1, update: read-only, about: hours}
    - name: level
      type: int
      default: -1
      min: 1
      max: 9
      also: -1
      update: read-only
      here: {option: step, default: 2, min: 0, also: -2, reason: because}
      about: step
    - {name: ratio, type: double, default: 0.5, max: 1, update: per-broker, about: ratio}
    - {name: huge, type: double, default: "1.5E308", update: per-broker, about: huge}
    - {name: flag, type: boolean, default: false, update: per-broker, about: flag}
    - name: mode
      type: string
      default: a
      one_of: [A, B]
      any_case: true
      rule: not_null
      update: read-only
      about: mode
  group: []
"""


def test_configs(write: Write) -> None:
    found = load_configs(write(CONFIGS))
    assert tuple(found) == RESOURCES
    assert found["topic"] == (
        ConfigSpec("keep.ms", "long", "5", min=-1, broker="log.keep.ms", here=HereSpec(), about="how long"),
        ConfigSpec("ways", "list", "", one_of=("on", "off"), importance="low", about="which ways"),
    )
    assert [spec.default for spec in found["broker"]] == [None, "1", "-1", "0.5", "1.5E308", "false", "a"]
    assert found["broker"][0].synonyms == ("log.keep.hours",)
    assert found["broker"][2].here == HereSpec("step", "2", 0, -2, "because")
    assert found["group"] == found["client_metrics"] == ()


def test_what_is_written_is_read_again(write: Write) -> None:
    found = load_configs(write(CONFIGS))
    assert load_configs(write(dump_configs(found))) == found


def test_kafkas_table_is_written_as_it_stands() -> None:
    path = SCHEMAS / "configs.yaml"
    found = load_configs(path)
    assert dump_configs(found) == path.read_text()
    for specs in found.values():
        assert [spec.name for spec in specs] == sorted({spec.name for spec in specs})


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("type: double, default: 0.5", "type: real", ":17: ratio: type: expected one of boolean, class"),
        ("default: 5", "default: five", ":3: keep.ms: default: expected an integer, got 'five'"),
        ("default: false", "default: 0", ":19: flag: default: expected true or false, got 0"),
        ("name: ways", "name: keep.ms", ":4: keep.ms: the name is used twice"),
        ("broker: log.keep.ms", "broker: log.keep", ":3: keep.ms: unknown broker configuration log.keep"),
        ("[log.keep.hours]", "[log.keep.days]", ":6: log.keep.ms: unknown broker configuration log.keep.days"),
        ("importance: low", "importance: none", ":4: ways: importance: expected one of high, medium, low, got 'none'"),
        (
            "importance: low",
            "update: read-only",
            ":4: ways: update: required for broker configurations, and not allowed for others",
        ),
        (
            ", default: 1, update: read-only",
            "",
            ":7: log.keep.hours: update: required for broker configurations",
        ),
        ("default: false", "default: false, min: 1", ":19: flag: min: not allowed, because boolean is not a number"),
        ("default: false", "one_of: [a]", ":19: flag: one_of: expected text or a list, got boolean"),
        ("one_of: [on, off]", "one_of: [1]", ":4: ways: one_of: expected text, got 1"),
        ("reason: because", "reasons: because", ":15: level: here: unknown key"),
        (
            ", reason: because",
            "",
            ":15: level: here: reason: required, because a value under `here` differs from Kafka's",
        ),
        ("option: step", "option: import", ":15: level: here: option: 'import' is a Python keyword"),
        ("rule: not_null", "rule: nice", ":25: mode: rule: expected one of not_empty"),
        ("  group: []", "  people: []", "configs: unknown key 'people'"),
        ("  group: []", "---\nconfigs: {}", "expected one document, got 2"),
        ("about: how long", "colour: red", ":3: unknown key 'colour'"),
        (", about: which ways", "", ":4: ways: about: missing; describe the configuration in our own words"),
        ("about: step", "about: ''", ":16: level: about: empty"),
        ("about: step", "about: step.", ":16: level: about: must not end with a full stop"),
    ],
)
def test_mistakes(write: Write, old: str, new: str, reason: str) -> None:
    assert old in CONFIGS
    with pytest.raises(SchemaError) as caught:
        load_configs(write(CONFIGS.replace(old, new, 1)))
    assert reason in str(caught.value)
