"""The generated configuration tables equal their sources.

Method: compare Kafka's tables with their module, and execute the module of a small table.
"""

from __future__ import annotations

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.configs import ConfigSpec, HereSpec, load_configs
from kafkawire.codegen.emit.configs import emit_config_documentation, emit_configs
from kafkawire.sdk.protocol.tables import configs as generated
from kafkawire.sdk.protocol.tables.config_documentation import CONFIG_DOCUMENTATION
from kafkawire.sdk.protocol.tables.enums import ConfigType

FACTS = ("default", "min", "max", "also", "one_of", "any_case", "rule", "update", "broker", "synonyms")


def test_kafkas_configurations() -> None:
    for resource, specs in load_configs(SCHEMAS / "configs.yaml").items():
        keys = getattr(generated, f"{resource.upper()}_CONFIGS")
        assert list(keys) == [spec.name for spec in specs]
        for spec in specs:
            key = keys[spec.name]
            assert key.type.name.lower() == spec.type
            assert [getattr(key, fact) for fact in FACTS] == [getattr(spec, fact) for fact in FACTS]
            here = spec.here
            assert key.here == (None if here is None else (here.option, here.default, here.min, here.also))


def test_descriptions_are_sentences() -> None:
    for resource, specs in load_configs(SCHEMAS / "configs.yaml").items():
        sentences = CONFIG_DOCUMENTATION[resource]
        assert list(sentences) == [spec.name for spec in specs]
        for spec in specs:
            assert sentences[spec.name][1:] == f"{spec.about[1:]}."
            assert sentences[spec.name][0] == spec.about[0].upper()


def test_every_fact_is_written() -> None:
    spec = ConfigSpec(
        "x.y", "list", 'a "b"', 1, 2.5, -1, ("c", "d" * 120), True, "not_null", "low", "read-only", "e", ("f",),
        HereSpec("g", "h", 0, -2, "because"), "text",
    )  # fmt: skip
    text = emit_configs({"broker": (spec,)}, "0").replace("from .enums", "from kafkawire.sdk.protocol.tables.enums")
    assert max(map(len, text.splitlines())) < 160
    found: dict[str, object] = {"__name__": "sample"}
    exec(compile(text, "sample.py", "exec"), found)
    assert found["BROKER_CONFIGS"] == {
        "x.y": (
            "x.y", ConfigType.LIST, 'a "b"', 1, 2.5, -1, ("c", "d" * 120), True, "not_null", "read-only", "e", ("f",),
            ("g", "h", 0, -2),
        )
    }  # fmt: skip


def test_any_characters_are_written() -> None:
    configs = {"topic": (ConfigSpec("x", "int", about='a "b" \\ cä'),), "broker": ()}
    found: dict[str, object] = {}
    exec(emit_config_documentation(configs, "0"), found)
    assert found["CONFIG_DOCUMENTATION"] == {"topic": {"x": 'A "b" \\ cä.'}, "broker": {}}
