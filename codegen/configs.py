"""Read the table of configurations, `configs.yaml`.

Errors name the file, the line and the configuration, and are all reported together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafkawire.codegen.located import Located, Problems, read_documents
from kafkawire.codegen.names import field_problem

__all__ = [
    "IMPORTANCES",
    "RESOURCES",
    "RULES",
    "TYPES",
    "UPDATES",
    "ConfigSpec",
    "Configs",
    "HereSpec",
    "Number",
    "load_configs",
]

#: The kinds of resources that have configurations, in file order. A broker in a ZooKeeper cluster also has those of
#: `zookeeper_broker`, which Apache Kafka 3.9 defines. Those of `running_broker` cannot be set when the broker starts.
RESOURCES: Final = ("topic", "broker", "zookeeper_broker", "running_broker", "group", "client_metrics")

#: The names of the types in the ConfigType enumeration.
TYPES: Final = ("boolean", "class", "double", "int", "list", "long", "password", "short", "string")

IMPORTANCES: Final = ("high", "medium", "low")

#: Whether and where a running broker accepts a new value.
UPDATES: Final = ("read-only", "per-broker", "cluster-wide")

#: Rules that neither a range nor a list of values can express.
RULES: Final = ("not_empty", "not_null", "offset_reset", "partition_replicas")

_NUMBERS = ("double", "int", "long", "short")

Number = int | float

#: Configurations keyed by kind of resource, in file order.
Configs = Mapping[str, tuple["ConfigSpec", ...]]


@dataclass(frozen=True, slots=True)
class HereSpec:
    """How the reference broker treats a configuration that affects it.

    Attributes:
        option: the option's name, if it is not Kafka's name with underscores.
        default: the broker's own default, as text; None for Kafka's.
        min: the lowest value, if it differs from Kafka's.
        also: a value outside the range that the reference broker accepts, but Kafka does not.
        reason: the reason for any difference from Kafka.
    """

    option: str = ""
    default: str | None = None
    min: Number | None = None
    also: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ConfigSpec:
    """A configuration.

    Attributes:
        name: its name in Kafka.
        type: its type, one of `TYPES`.
        default: its default as Kafka writes it; None if there is none.
        min: the lowest value of a number; None if only its type limits it.
        max: the highest value; None if only its type limits it.
        also: an accepted value outside that range.
        one_of: the only values allowed for text, or for each entry of a list; empty if any value is accepted.
        any_case: whether case is ignored.
        rule: one of `RULES`, or empty.
        importance: one of `IMPORTANCES`; empty if Kafka has none.
        update: one of `UPDATES`, for a configuration of a broker.
        broker: the broker configuration that supplies the default for a topic or group; empty if there is none.
        synonyms: other names for the same value, possibly in another unit, in order of precedence after this one.
        here: None if it has no effect on the reference broker.
        about: its effect, in our own words; empty only right after the configuration was imported.
    """

    name: str
    type: str
    default: str | None = None
    min: Number | None = None
    max: Number | None = None
    also: int | None = None
    one_of: tuple[str, ...] = ()
    any_case: bool = False
    rule: str = ""
    importance: str = ""
    update: str = ""
    broker: str = ""
    synonyms: tuple[str, ...] = ()
    here: HereSpec | None = None
    about: str = ""


def load_configs(path: Path) -> dict[str, tuple[ConfigSpec, ...]]:
    """Read `configs.yaml`.

    Raises:
        SchemaError: the file is invalid, a name is used twice, or an entry refers to a broker configuration that does
            not exist.
    """
    problems = Problems()
    found: dict[str, tuple[ConfigSpec, ...]] = {}
    with problems.collect():
        resources = _by_resource(path, "configs")
        brokers = {str(item.get("name")) for item in resources.mappings("broker")}
        for resource in RESOURCES:
            specs: dict[str, ConfigSpec] = {}
            for item in resources.mappings(resource):
                with problems.collect():
                    spec = _config(item, resource)
                    if spec.name in specs:
                        problems.add(item.problem("the name is used twice", "name"))
                    for key, names in (("broker", (spec.broker,)), ("synonyms", spec.synonyms)):
                        missing = [name for name in names if name and name not in brokers]
                        problems.add(*(item.problem(f"unknown broker configuration {name}", key) for name in missing))
                    specs[spec.name] = spec
            found[resource] = tuple(specs.values())
    problems.check()
    return found


def _by_resource(path: Path, key: str) -> Located:
    """Return the mapping under `key` in a file with a single document."""
    documents = read_documents(path)
    if len(documents) != 1:
        raise Located(path, 0).error(f"expected one document, got {len(documents)}")
    documents[0].only((key,))
    resources: Located = documents[0].require(key, dict)
    resources.place = key
    resources.only(RESOURCES)
    return resources


def _config(item: Located, resource: str) -> ConfigSpec:
    item.only(ConfigSpec.__slots__)
    name = item.required_text("name")
    item.place = name
    kind = _one_of(item, "type", TYPES)
    numbers = {key: _number(item, key, kind) for key in ("min", "max")}
    choices = _names(item, "one_of")
    if choices and kind not in ("list", "string"):
        raise item.error(f"one_of: expected text or a list, got {kind}", "one_of")
    if (resource == "broker") != ("update" in item):
        raise item.error("update: required for broker configurations, and not allowed for others", "update")
    here = item.optional("here", dict, None)
    return ConfigSpec(
        name,
        kind,
        _default(item, kind),
        **numbers,
        also=item.optional("also", int, None),
        one_of=choices,
        any_case=item.optional("any_case", bool, False),
        rule=_one_of(item, "rule", RULES) if "rule" in item else "",
        importance=_one_of(item, "importance", IMPORTANCES) if "importance" in item else "",
        update=_one_of(item, "update", UPDATES) if "update" in item else "",
        broker=item.text("broker"),
        synonyms=_names(item, "synonyms"),
        here=None if here is None else _here(here, name, kind),
        about=_about(item),
    )


def _here(item: Located, name: str, kind: str) -> HereSpec:
    item.place = f"{name}: here"
    item.only(HereSpec.__slots__)
    option = item.text("option")
    if option and (reason := field_problem(option)):
        raise item.error(f"option: {reason}", "option")
    differs = any(key in item for key in ("default", "min", "also"))
    reason = item.text("reason")
    if differs and not reason:
        raise item.error("reason: required, because a value under `here` differs from Kafka's")
    return HereSpec(option, _default(item, kind), _number(item, "min", kind), item.optional("also", int, None), reason)


def _about(item: Located) -> str:
    if "about" not in item:
        raise item.error("about: missing; describe the configuration in our own words")
    about = item.text("about")
    if about.endswith("."):
        raise item.error("about: must not end with a full stop, because the generated documentation adds one", "about")
    return about


def _one_of(item: Located, key: str, values: tuple[str, ...]) -> str:
    value: str = item.require(key, str)
    if value not in values:
        raise item.error(f"{key}: expected one of {', '.join(values)}, got {value!r}", key)
    return value


def _names(item: Located, key: str) -> tuple[str, ...]:
    names: list[object] = item.optional(key, list, [])
    wrong = [name for name in names if not isinstance(name, str) or not name]
    if wrong:
        raise item.error(f"{key}: expected text, got {wrong[0]!r}", key)
    return tuple(str(name) for name in names)


def _number(item: Located, key: str, kind: str) -> Number | None:
    number: Number | None = item.optional(key, (int, float), None)
    if number is not None and kind not in _NUMBERS:
        raise item.error(f"{key}: not allowed, because {kind} is not a number", key)
    return number


def _default(item: Located, kind: str) -> str | None:
    """Return a default as Kafka writes it."""
    if item.get("default") is None:
        return None
    if kind == "boolean":
        return "true" if item.require("default", bool) else "false"
    if kind == "double":  # Java and Python write a double the same way, unless it is huge or tiny
        return str(item.require("default", (int, float, str)))
    if kind in _NUMBERS:
        return str(item.require("default", int))
    return str(item.require("default", str))
