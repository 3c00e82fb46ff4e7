"""Write metrics as text, in the OpenMetrics format or in Prometheus' older one.

The formats differ in the name on the `# TYPE` line of counters, and in the last line, by which the end of OpenMetrics
text is recognised.

Source: OpenMetrics 1.0, "Text format"; Prometheus documentation, "Exposition formats".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from kafkawire.reference_broker.metrics.families import Family, Kind

__all__ = ["Format", "Measured", "Sample", "format_for", "lines"]


class Format(Enum):
    """A text format; the value is its content type."""

    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class Sample(NamedTuple):
    """A value.

    Attributes:
        value: the value.
        labels: the values of the family's labels, in order.
        suffix: added to the name, for example `_sum`; counters get `_total` by themselves.
        le: the upper bound of a histogram's bucket; None for anything else.
    """

    value: float
    labels: tuple[str, ...] = ()
    suffix: str = ""
    le: float | None = None


class Measured(NamedTuple):
    """A family with its current values."""

    family: Family
    samples: tuple[Sample, ...]


_TOTAL: Final = "_total"


def format_for(accept: str) -> Format:
    """Return the format that suits an `Accept` header best: OpenMetrics if the client names it, and not with `q=0`."""
    for each in accept.split(","):
        media_type, *parameters = (part.strip().lower() for part in each.split(";"))
        if media_type == "application/openmetrics-text":
            refused = any(part.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000") for part in parameters)
            return Format.PROMETHEUS if refused else Format.OPENMETRICS
    return Format.PROMETHEUS


def lines(measured: Iterable[Measured], form: Format) -> Iterator[str]:
    """Yield the text in pieces: one for each family with values, and the end.

    Args:
        measured: the metrics; each family appears once.
        form: the format.
    """
    for family, samples in measured:
        if samples:
            yield _family(family, samples, form)
    if form is Format.OPENMETRICS:
        yield "# EOF\n"


def _family(family: Family, samples: tuple[Sample, ...], form: Format) -> str:
    total = _TOTAL if family.kind is Kind.COUNTER else ""
    described = family.name + (total if form is Format.PROMETHEUS else "")
    written = [f"# TYPE {described} {family.kind.value}\n# HELP {described} {_escaped(family.text)}\n"]
    for sample in samples:
        pairs = [f'{name}="{_escaped(value)}"' for name, value in zip(family.labels, sample.labels, strict=True)]
        if sample.le is not None:
            pairs.append(f'le="{_number(sample.le)}"')
        labels = f"{{{','.join(pairs)}}}" if pairs else ""
        written.append(f"{family.name}{sample.suffix or total}{labels} {_number(sample.value)}\n")
    return "".join(written)


def _number(value: float) -> str:
    return "+Inf" if value == float("inf") else repr(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
