"""Templates escape every value, and a misspelt name in a template is an error.

Method: render values that contain HTML, and values written in the template language.
"""

from __future__ import annotations

import pytest
from jinja2 import UndefinedError

from kafkawire.sdk.spark.audit.lists import folded_list
from kafkawire.sdk.spark.audit.pages import environment, rendered
from kafkawire.sdk.spark.audit.plots import Circle, Path, Plot, Rect, Text
from tests.sdk.spark.audit.drawings import svg_of


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("<b>&", "&lt;b&gt;&amp;"),
        ("{{ 7 * 7 }}", "{{ 7 * 7 }}"),
        ("{% include 'report.css' %}", "{% include &#39;report"),
    ],
)
def test_values_are_text(name: str, shown: str) -> None:
    assert shown in rendered("lists.html.jinja", lists=[folded_list("Title", ("name",), [(name,)])])


def test_what_is_not_given_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="'lists' is undefined"):
        rendered("lists.html.jinja", list=[])


@pytest.mark.parametrize("name", ["lists.html.jinja", "parts.html.jinja", "plot.svg.jinja", "report.html.jinja"])
def test_templates_are_found(name: str) -> None:
    assert name in environment().list_templates()


@pytest.mark.parametrize(
    ("mark", "text"),
    [
        (Rect("c1", 1, 2.25, 3.04, 4), '<rect class="c1" x="1" y="2.2" width="3" height="4"></rect>'),
        (Rect("c1", 0, 0, 1, 1, 1.5, "<t>"), 'height="1" rx="1.5"><title>&lt;t&gt;</title></rect>'),
        (Path("axis", "M0 0H9"), '<path class="axis" d="M0 0H9"></path>'),
        (Circle("c2", 1, 2, 3, "t"), '<circle class="c2" cx="1" cy="2" r="3"><title>t</title></circle>'),
        (Text("tick", 1, 2, "<t>"), '<text class="tick" x="1" y="2">&lt;t&gt;</text>'),
    ],
)
def test_marks(mark: Rect | Path | Circle | Text, text: str) -> None:
    svg = svg_of(Plot(10, 20, [mark]))
    assert '<svg viewBox="0 0 10 20" role="img">' in svg
    assert text in svg
