"""Update the table of configurations to match a Kafka release.

Facts come from the release: from a running broker's response to DescribeConfigs, and from the pages that Kafka's
classes print for its documentation, which list the allowed values. Our own entries are kept: descriptions, synonyms,
and how the reference broker treats a configuration. A new configuration has no description until the maintainer adds
one.

Source: the list of configurations that `ConfigDef.toHtml` prints.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from kafkawire.codegen.configs import RESOURCES, ConfigSpec, Number, load_configs
from kafkawire.codegen.located import SchemaError

__all__ = ["Answer", "updated_configs"]

_ENTRY = re.compile(r'<h4><a id="(?P<name>[^"]+)">.*?</tbody></table>', re.DOTALL)
_CELL = re.compile(r"<tr><th>(?P<title>[^<]+):</th><td>(?P<value>[^<]*)</td></tr>")
_RANGE = re.compile(r"\[(?P<low>-?[\d.]*),?(?P<dots>\.\.\.)(?:,(?P<high>-?[\d.]+))?\](?: or (?P<also>-?\d+))?")
_CHOICES = re.compile(r"(?P<any_case>\(case insensitive\) )?\[(?P<values>[^\]]+)\]")
_NO_DEFAULT = "null"
_RULES = {
    "non-empty string": "not_empty",
    "non-empty list": "not_empty",
    "non-null string": "not_null",
    "[latest, earliest, by_duration:PnDTnHnMn.nS]": "offset_reset",
    "[partitionId]:[brokerId],[partitionId]:[brokerId],...": "partition_replicas",
}


class Answer(NamedTuple):
    """A broker's description of a configuration.

    Attributes:
        name: the name of the configuration.
        type: one of `TYPES`.
        default: None if there is none.
        broker: the broker configuration that supplies its default, if that has another name; otherwise empty.
    """

    name: str
    type: str
    default: str | None
    broker: str = ""


def updated_configs(
    answers: Mapping[str, Iterable[Answer]], pages: Mapping[str, str], path: Path
) -> dict[str, tuple[ConfigSpec, ...]]:
    """Return the configurations of a release, with our own entries taken from the previous release's table.

    Args:
        answers: the responses from a broker of the release, keyed by kind of resource. Configurations of a missing kind
            are left unchanged, since a broker does not list those that can be set only while it runs.
        pages: the pages of the release's documentation, likewise keyed by kind; client metrics have no page.
        path: the table of configurations, from which our own entries are taken; it may be missing.

    Returns:
        The configurations, keyed by kind of resource; the description of a new one is empty.

    Raises:
        SchemaError: the table is invalid, or cannot express a fact about the release.
    """
    known = load_configs(path) if path.exists() else {}
    configs: dict[str, tuple[ConfigSpec, ...]] = {}
    for resource in RESOURCES:
        if resource not in answers:
            configs[resource] = known.get(resource, ())
            continue
        own = {spec.name: spec for spec in known.get(resource, ())}
        cells = _cells(pages.get(resource, ""))
        configs[resource] = tuple(
            _config(path, answer, cells.get(answer.name, {}), own.get(answer.name))
            for answer in sorted(answers[resource])
        )
    return configs


def _cells(page: str) -> dict[str, dict[str, str]]:
    """Return the cells on a page for each configuration, keyed by row title."""
    return {
        entry["name"]: {cell["title"]: html.unescape(cell["value"]) for cell in _CELL.finditer(entry[0])}
        for entry in _ENTRY.finditer(page)
    }


def _config(path: Path, answer: Answer, cells: Mapping[str, str], own: ConfigSpec | None) -> ConfigSpec:
    broker = cells.get("Server Default Property", answer.broker)
    spec = ConfigSpec(
        answer.name,
        answer.type,
        answer.default,
        importance=cells.get("Importance", ""),
        update=cells.get("Update Mode", ""),
        broker="" if broker == _NO_DEFAULT else broker,
    )
    spec = _with_valid(path, spec, cells.get("Valid Values", ""))
    if own is None:
        return spec
    return replace(spec, synonyms=own.synonyms, here=own.here, about=own.about)


def _with_valid(path: Path, spec: ConfigSpec, valid: str) -> ConfigSpec:
    """Return a configuration with the allowed values that Kafka documents."""
    if not valid:
        return spec
    if valid in _RULES:
        return replace(spec, rule=_RULES[valid])
    if match := _RANGE.fullmatch(valid):
        also = None if match["also"] is None else int(match["also"])
        return replace(spec, min=_number(match["low"]), max=_number(match["high"]), also=also)
    if match := _CHOICES.fullmatch(valid):
        return replace(spec, one_of=tuple(match["values"].split(", ")), any_case=bool(match["any_case"]))
    raise SchemaError(path, 0, f"{spec.name}: no rule expresses {valid!r}; add one to codegen/configs.py")


def _number(text: str | None) -> Number | None:
    if not text:
        return None
    return float(text) if "." in text else int(text)
