"""Make the pages of the protocol reference from the templates in `templates/`, which contain all of its HTML.

Every value is escaped: a description in a schema may contain anything.
"""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

__all__ = ["environment", "rendered"]


def rendered(template: str, **values: object) -> str:
    """Return the page that a template produces for given values.

    Args:
        template: the name of its file.
        values: the values that the template uses, keyed by name.

    Raises:
        jinja2.UndefinedError: the template uses a name that has no value.
    """
    return environment().get_template(template).render(values)


@cache
def environment() -> Environment:
    """Return the environment that all templates share."""
    return Environment(
        loader=PackageLoader("kafkawire.codegen.emit"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
