"""A metric for a whole client is identified by its group and name alone."""

from kafkawire.sdk.metrics.names import MetricName


def test_names_without_tags_are_short() -> None:
    name = MetricName("producer-metrics", "byte-rate")
    assert name == ("producer-metrics", "byte-rate", ())
    assert {name: 1.0}[MetricName("producer-metrics", "byte-rate")] == 1.0
