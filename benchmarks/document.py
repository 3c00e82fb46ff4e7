"""Put measured tables into a document, between `<!-- measured: NAME -->` and `<!-- end of NAME -->`.

A run replaces the tables of the previous run and leaves the text around them alone.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["write_section"]


def write_section(path: Path, name: str, text: str) -> None:
    """Replace a section of a document.

    Args:
        path: the document.
        name: the section.
        text: its new content, in Markdown.

    Raises:
        ValueError: the document has no such section.
    """
    document = path.read_text("utf-8")
    begin, end = f"<!-- measured: {name} -->\n", f"<!-- end of {name} -->"
    if document.count(begin) != 1 or document.count(end) != 1:
        raise ValueError(f"{path} has no section between {begin.strip()!r} and {end!r}")
    before, rest = document.split(begin)
    after = rest.split(end)[1]
    path.write_text(f"{before}{begin}\n{text.strip()}\n\n{end}{after}", "utf-8")
