"""Render the report's pages from the templates in `templates/`, which contain all of its HTML and SVG.

Every value is escaped, because the names of topics, groups and keys may contain anything.
"""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from kafkawire.sdk.spark.audit.plots import Mark

__all__ = ["environment", "rendered"]


def rendered(template: str, **values: object) -> str:
    """Return a filled template.

    Args:
        template: the name of its file.
        values: the values to insert, keyed by name.
    """
    return str(environment().get_template(template).render(values))


@cache
def environment() -> Environment:
    """Return the environment that reads the templates."""
    found = Environment(
        loader=PackageLoader("kafkawire.sdk.spark.audit"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters |= {"coordinate": _coordinate, "shape": _shape}
    return found


def _coordinate(value: float) -> str:
    """Return a position in a plot, rounded to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def _shape(mark: Mark) -> str:
    """Return the class name of a mark."""
    return type(mark).__name__
