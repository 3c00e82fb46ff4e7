"""Build HTML: elements with escaped text, and the frame of a page."""

from __future__ import annotations

import html
from collections.abc import Iterable

__all__ = ["Content", "Html", "element", "page", "table"]


class Html(str):
    """Text that is already HTML and must not be escaped."""

    __slots__ = ()


#: The possible content of an element.
Content = str | Html


def element(tag: str, *content: Content, **attributes: str) -> Html:
    """Return an element.

    Args:
        tag: the name of the tag.
        content: the content; text that is not `Html` is escaped.
        attributes: `class_` means `class`; empty attributes are left out.
    """
    names = {name.rstrip("_"): value for name, value in attributes.items() if value}
    opening = "".join(f' {name}="{html.escape(value)}"' for name, value in names.items())
    inner = "".join(part if isinstance(part, Html) else html.escape(part, quote=False) for part in content)
    return Html(f"<{tag}{opening}>{inner}</{tag}>")


def table(columns: Iterable[str], rows: Iterable[Iterable[Content]], class_: str = "") -> Html:
    """Return a table that scrolls on its own if the page is narrow."""
    head = element("tr", *(element("th", column, scope="col") for column in columns))
    body = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    inner = element("table", element("thead", head), element("tbody", *_lines(body)), class_=class_)
    return element("div", inner, class_="scroll")


def page(title: str, root: str, *content: Content) -> str:
    """Return a whole page.

    Args:
        title: the title of the page.
        root: the path to the top of the site, such as `../`; empty for pages at the top.
        content: the content below the bar of links.
    """
    links = (("index.html", "Messages"), ("records.html", "Record formats"), ("errors.html", "Error codes"),
             ("enumerations.html", "Enumerations"))  # fmt: skip
    bar = element(
        "nav",
        element("a", "kafkawire protocol", href=f"{root}index.html", class_="home"),
        *(element("a", text, href=root + target) for target, text in links),
    )
    head = [
        Html('<meta charset="utf-8">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        element("title", f"{title} · kafkawire protocol"),
        Html(f'<link rel="stylesheet" href="{root}reference.css">'),
    ]
    body = [bar, element("main", *_lines(content))]
    text = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        *head,
        "</head>",
        "<body>",
        *body,
        "</body>",
        "</html>",
        "",
    ]
    return "\n".join(text)


def _lines(parts: Iterable[Content]) -> Iterable[Content]:
    """Yield the parts with line breaks between them, so that one changed part is one changed line."""
    for part in parts:
        yield Html("\n")
        yield part
