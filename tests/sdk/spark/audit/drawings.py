"""Render values with the macros in the report's templates."""

from __future__ import annotations

from kafkawire.sdk.spark.audit.lists import FoldedList
from kafkawire.sdk.spark.audit.pages import environment
from kafkawire.sdk.spark.audit.plots import Plot

__all__ = ["list_text", "svg_of"]


def svg_of(plot: Plot) -> str:
    return _shown("plot.svg.jinja", "plot", plot)


def list_text(shown: FoldedList) -> str:
    return _shown("parts.html.jinja", "list_of", shown)


def _shown(template: str, macro: str, value: object) -> str:
    return str(getattr(environment().get_template(template).module, macro)(value))
