"""The text of both formats is what Prometheus' own parsers read.

Method: write families of every kind, and parse the text with prometheus_client; try `Accept` headers of real scrapers.
"""

from __future__ import annotations

import math

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

from kafkawire.reference_broker.metrics.exposition import Format, Measured, Sample, format_for, lines
from kafkawire.reference_broker.metrics.families import Family, Kind
from kafkawire.reference_broker.metrics.histogram import Histogram

PARSERS = {Format.OPENMETRICS: parse_openmetrics, Format.PROMETHEUS: parse_prometheus}

HARD = 'a"b\\c\nd'


def sums(*labels: str) -> tuple[Sample, ...]:
    return Sample(2, labels, "_count"), Sample(1.5, labels, "_sum")


HISTOGRAM = Histogram()
HISTOGRAM.add(3_000_000)

MEASURED = [
    Measured(Family("c", Kind.COUNTER, "kafka.x: text", ("topic",)), (Sample(7, ("t",)), Sample(8, (HARD,)))),
    Measured(Family("g", Kind.GAUGE, "text"), (Sample(0.25),)),
    Measured(Family("s", Kind.SUMMARY, "text", ("request",)), sums("Fetch")),
    Measured(Family("h_seconds", Kind.HISTOGRAM, "text"), tuple(HISTOGRAM.samples())),
    Measured(Family("empty", Kind.GAUGE, "text", ("topic",)), ()),
]


@pytest.mark.parametrize("form", Format)
def test_parsers_read_it(form):
    text = "".join(lines(MEASURED, form))
    families = {family.name: family for family in PARSERS[form](text)}
    assert set(families) == {"c", "g", "s", "h_seconds"}
    assert [family.type for family in families.values()] == ["counter", "gauge", "summary", "histogram"]
    counted = {sample.labels["topic"]: (sample.name, sample.value) for sample in families["c"].samples}
    assert counted == {"t": ("c_total", 7), HARD: ("c_total", 8)}
    buckets = {sample.labels["le"]: sample.value for sample in families["h_seconds"].samples if "le" in sample.labels}
    assert (buckets["0.0025"], buckets["0.005"], buckets["+Inf"]) == (0, 1, 1)
    assert families["c"].documentation == "kafka.x: text"
    assert text.endswith("# EOF\n") is (form is Format.OPENMETRICS)


def test_labels_must_fit_the_family():
    with pytest.raises(ValueError, match="zip"):
        list(lines([Measured(Family("g", Kind.GAUGE, "text", ("topic",)), (Sample(1),))], Format.PROMETHEUS))


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Format.PROMETHEUS),
        ("*/*", Format.PROMETHEUS),
        ("text/plain", Format.PROMETHEUS),
        ("application/openmetrics-text", Format.OPENMETRICS),
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;"
            "version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,*/*;q=0.2",
            Format.OPENMETRICS,
        ),
        ("text/html, Application/OpenMetrics-Text ; version=1.0.0", Format.OPENMETRICS),
        ("application/openmetrics-text; q=0, text/plain", Format.PROMETHEUS),
        (",;,;;q=,", Format.PROMETHEUS),
    ],
)
def test_negotiation(accept, form):
    assert format_for(accept) is form


def test_infinity_is_written_as_the_formats_want():
    text = "".join(lines([Measured(Family("g", Kind.GAUGE, "text"), (Sample(math.inf),))], Format.PROMETHEUS))
    assert text.endswith("g +Inf\n")
