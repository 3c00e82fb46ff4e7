"""Templates escape every value, and a missing value is an error.

Method: render values that contain HTML, and values written in the template language.
"""

from __future__ import annotations

import pytest
from jinja2 import UndefinedError

from kafkawire.codegen.emit.pages import environment, rendered
from tests.codegen.emit.html_reader import Reader


@pytest.mark.parametrize("title", ["A & B", "<b>bold</b>", "{{ 7 * 7 }}", "{% include 'page.html.jinja' %}"])
def test_values_are_text(title: str) -> None:
    page = rendered("page.html.jinja", title=title, root="../")
    reader = Reader(page)
    assert reader.open == []
    assert {title, f"{title} · kafkawire protocol", "Error codes"} <= set(reader.texts)


def test_a_page_reaches_the_top_of_the_site() -> None:
    page = rendered("page.html.jinja", title="Page", root="../")
    assert page.count('href="../') == page.count('href="') > 1
    assert page.startswith("<!doctype html>\n")
    assert page.endswith("</html>\n")


@pytest.mark.parametrize("template", sorted({*environment().list_templates()} - {"parts.html.jinja"}))
def test_a_value_that_is_not_given_is_an_error(template: str) -> None:
    with pytest.raises(UndefinedError, match=r"'\w+' is undefined"):
        rendered(template)
