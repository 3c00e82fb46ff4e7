"""Text is escaped, HTML is not, and a page is whole.

Method: an HTML parser reads what was written back.
"""

from __future__ import annotations

from kafkawire.codegen.emit.html import Html, element, page, table
from tests.codegen.emit.html_reader import Reader


def test_element() -> None:
    assert element("p", "a < b & c", class_="x") == '<p class="x">a &lt; b &amp; c</p>'
    assert element("p", element("b", "<"), Html("&middot;")) == "<p><b>&lt;</b>&middot;</p>"
    assert element("a", "go", href='x?"y"', id="") == '<a href="x?&quot;y&quot;">go</a>'


def test_table() -> None:
    reader = Reader(table(("A", "B"), [["1", element("code", "<2>")]]))
    assert reader.texts == ["A", "B", "1", "<2>"]
    assert reader.open == []


def test_page() -> None:
    text = page("A & B", "../", element("h1", "Hello"), "text")
    reader = Reader(text)
    assert reader.open == []
    assert {"A & B · kafkawire protocol", "Hello", "text", "Error codes"} <= set(reader.texts)
    assert 'href="../errors.html"' in text
    assert text.startswith("<!doctype html>\n")
    assert text.endswith("</html>\n")
