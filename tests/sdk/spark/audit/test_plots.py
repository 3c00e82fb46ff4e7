"""Plots are well-formed, stay inside their frame, and show hostile names as text.

Method: draw each plot with its template, parse it as XML, and check its coordinates and titles.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from kafkawire.sdk.spark.audit.plots import (
    Bar,
    LegendEntry,
    Part,
    Series,
    TimeFrame,
    bars,
    columns,
    lines,
    lorenz,
    split,
    stacked,
)
from kafkawire.sdk.spark.audit.quantities import bytes_text, count_text
from tests.sdk.spark.audit.drawings import svg_of

HOSTILE = '<script>alert("1")</script>&\'\x00'
FRAME = TimeFrame(0, 600_000, 60_000)


def parsed(svg: str) -> list[ElementTree.Element]:
    (found,) = re.findall(r"<svg.*?</svg>", svg, re.DOTALL)
    return list(ElementTree.fromstring(found.replace("\x00", "")).iter())


def titles(svg: str) -> list[str]:
    return [each.text or "" for each in parsed(svg) if each.tag == "title"]


def numbers(svg: str) -> list[float]:
    found = []
    for each in parsed(svg):
        found += [float(each.get(name, 0)) for name in ("x", "y", "cx", "cy", "width", "height")]
        found += map(float, re.findall(r"-?\d+(?:\.\d+)?", each.get("d", "")))
    return found


PLOTS = {
    "stacked": stacked([Series(HOSTILE, [(0, 5), (540_000, 7)], "c1")], FRAME, count_text),
    "stacked, nothing": stacked([], FRAME, count_text),
    "lines": lines([Series(HOSTILE, [(0, 5), (999_000, 7)], "c1"), Series("b", [], "c2")], FRAME, count_text),
    "bars": bars([Bar(HOSTILE * 9, 5, HOSTILE, HOSTILE, "c1", 9), Bar("b", 0, "0", "")]),
    "bars, nothing": bars([]),
    "columns": columns([Bar(HOSTILE, number, "", HOSTILE) for number in range(100)], count_text),
    "columns, nothing": columns([], count_text),
    "lorenz": lorenz([(0.5, 0.1), (1, 1)], HOSTILE),
    "split": split([Part(HOSTILE, 1, HOSTILE, "c1"), Part("none", 0, "0", "c2")]),
    "split, nothing": split([]),
}


@pytest.mark.parametrize("name", PLOTS)
def test_plots(name: str) -> None:
    svg = svg_of(PLOTS[name])
    assert "<script" not in svg
    assert all(-1 <= number <= 560 for number in numbers(svg)), svg
    assert all(each.tag in ("svg", "g", "rect", "path", "text", "title", "circle") for each in parsed(svg))


def test_series_are_on_top_of_each_other() -> None:
    series = [Series("a", [(0, 2), (59_999, 1)], "c1"), Series("b", [(0, 5), (600_000, 9), (-1, 9)], "c2")]
    svg = svg_of(stacked(series, FRAME, count_text))
    assert titles(svg) == ["1970-01-01 00:00:00\nb: 5\na: 3"]


def test_lines_hold_until_the_next_point() -> None:
    svg = svg_of(lines([Series("a", [(0, 0), (300_000, 10)], "c1")], FRAME, count_text))
    (path,) = [each for each in parsed(svg) if "line" in each.get("class", "")]
    assert re.fullmatch(r"M58\.0 156\.0H294\.0V10\.0H530", path.get("d", "")), path.get("d")
    assert titles(svg)[0] == "a: 10 at the end, at most 10"


def test_names_that_are_too_long_are_cut() -> None:
    svg = svg_of(bars([Bar("n" * 99, 1, "1", "n" * 99)], 70))
    assert "n" * 9 + "…" in svg
    assert titles(svg) == ["n" * 99]


@pytest.mark.parametrize(
    ("value", "unit", "top"),
    [(0, count_text, "1"), (0.3, count_text, "1"), (950, count_text, "1.00 k"), (9e6, bytes_text, "10.0 MiB")],
)
def test_axes_end_at_round_numbers(value: float, unit: Callable[[float], str], top: str) -> None:
    svg = svg_of(columns([Bar("a", value, "", "")], unit))
    assert [each.text for each in parsed(svg) if each.get("class") == "tick last"][-1] == top


def test_the_legend_of_a_whole_names_its_parts() -> None:
    plot = split([Part("a", 1, "one", "c1"), Part("b", 3, "three", "c2")])
    assert plot.legend == [LegendEntry("c1", "a", "one", "25 %"), LegendEntry("c2", "b", "three", "75 %")]
    assert titles(svg_of(plot)) == ["a: one, 25 %", "b: three, 75 %"]
