"""Write the modules of configurations: one with the facts, and a separate one with the descriptions.

The descriptions take as much space as the facts, but are needed only when documentation is requested.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from kafkawire.codegen.configs import ConfigSpec, HereSpec
from kafkawire.codegen.emit.source import header, literal

__all__ = ["emit_config_documentation", "emit_configs"]

_LINE_CHARACTERS: Final = 120

_CLASSES = '''\
class Here(NamedTuple):
    """How the reference broker treats a configuration that affects it.

    Attributes:
        option: the option's name, if it is not Kafka's name with underscores.
        default: the broker's own default; None for Kafka's.
        min: the lowest value; None for Kafka's.
        also: an accepted value outside the range.
    """

    option: str = ""
    default: str | None = None
    min: float | None = None
    also: int | None = None


class ConfigKey(NamedTuple):
    """A configuration, the values it accepts, and how the reference broker treats it.

    Attributes:
        name: its name in Kafka.
        type: the type of its value.
        default: Kafka's default as text; None if there is none.
        min: the lowest value of a number; None if only its type limits it.
        max: the highest value, likewise.
        also: an accepted value outside that range.
        one_of: the only values allowed for text, or for each entry of a list; empty if any value is accepted.
        any_case: whether case is ignored.
        rule: a further rule for the value; empty if there is none.
        update: for a broker configuration, whether and where a running broker accepts a new value.
        broker: for a topic or group configuration, the broker configuration that supplies its default; empty if there
            is none.
        synonyms: other names for the same value, in order of precedence after this one.
        here: None if it has no effect on the reference broker.
    """

    name: str
    type: ConfigType
    default: str | None = None
    min: float | None = None
    max: float | None = None
    also: int | None = None
    one_of: tuple[str, ...] = ()
    any_case: bool = False
    rule: str = ""
    update: str = ""
    broker: str = ""
    synonyms: tuple[str, ...] = ()
    here: Here | None = None

    @property
    def is_read_only(self) -> bool:
        """Whether a running broker keeps the value with which it was started."""
        return self.update == "read-only"


def _by_name(*keys: ConfigKey) -> dict[str, ConfigKey]:
    return {key.name: key for key in keys}
'''


def emit_configs(configs: Mapping[str, tuple[ConfigSpec, ...]], digest: str) -> str:
    """Return the module of configurations."""
    names = {resource: f"{resource.upper()}_CONFIGS" for resource in configs}
    lines = [
        *header("configs.yaml", digest),
        '"""The configurations of topics, brokers, groups and client metrics subscriptions."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Final, NamedTuple",
        "",
        "from .enums import ConfigType",
        "",
        "__all__ = [",
        *(f"    {json.dumps(name)}," for name in [*sorted(names.values()), "ConfigKey", "Here"]),
        "]",
        "",
        "",
        *_CLASSES.splitlines(),
    ]
    for resource, specs in configs.items():
        lines += ["", "", f"#: The {resource.replace('_', ' ')} configurations, by name."]
        lines.append(f"{names[resource]}: Final = _by_name(")
        for spec in specs:
            lines += _call("    ", "ConfigKey", list(_arguments(spec)), ",")
        lines.append(")")
    return "\n".join(lines) + "\n"


def _call(margin: str, function: str, arguments: list[str], end: str) -> list[str]:
    line = f"{margin}{function}({', '.join(arguments)}){end}"
    if len(line) <= _LINE_CHARACTERS:
        return [line]
    return [f"{margin}{function}(", *(f"{margin}    {argument}," for argument in arguments), f"{margin}){end}"]


def _arguments(spec: ConfigSpec) -> Iterator[str]:
    yield literal(spec.name)
    yield f"ConfigType.{spec.type.upper()}"
    if spec.default is not None:
        yield literal(spec.default)
    for key in ("min", "max", "also"):
        if (number := getattr(spec, key)) is not None:
            yield f"{key}={number}"
    if spec.one_of:
        yield f"one_of={_names(spec.one_of)}"
    if spec.any_case:
        yield "any_case=True"
    for key in ("rule", "update", "broker"):
        if text := getattr(spec, key):
            yield f"{key}={literal(text)}"
    if spec.synonyms:
        yield f"synonyms={_names(spec.synonyms)}"
    if spec.here is not None:
        yield f"here=Here({', '.join(_here(spec.here))})"


def _here(here: HereSpec) -> Iterator[str]:
    if here.option:
        yield f"option={literal(here.option)}"
    if here.default is not None:
        yield f"default={literal(here.default)}"
    for key in ("min", "also"):
        if (number := getattr(here, key)) is not None:
            yield f"{key}={number}"


def _names(names: tuple[str, ...]) -> str:
    return f"({', '.join(map(literal, names))}{',' if len(names) == 1 else ''})"


def emit_config_documentation(configs: Mapping[str, tuple[ConfigSpec, ...]], digest: str) -> str:
    """Return the module of the descriptions of configurations, each as a sentence."""
    lines = [
        *header("configs.yaml", digest),
        '"""The descriptions of configurations, which DescribeConfigs returns."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Final",
        "",
        '__all__ = ["CONFIG_DOCUMENTATION"]',
        "",
        "#: By kind of resource, then by name of the configuration.",
        "CONFIG_DOCUMENTATION: Final[dict[str, dict[str, str]]] = {",
    ]
    for resource, specs in configs.items():
        lines.append(f"    {literal(resource)}: {{")
        lines += [f"        {literal(spec.name)}: {literal(_sentence(spec.about))}," for spec in specs]
        lines.append("    },")
    return "\n".join([*lines, "}"]) + "\n"


def _sentence(about: str) -> str:
    return f"{about[0].upper()}{about[1:]}."
