"""The log gets a line a second of each kind, and learns how many were left out."""

from kafkawire.sdk.producer.log_limit import LogLimit


def test_a_line_a_second() -> None:
    limit = LogLimit()
    assert limit.suffix(1_000) == ""
    assert [limit.suffix(1_000 + later) for later in (0, 1, 999)] == [None] * 3
    assert limit.suffix(2_000) == " (and 3 more like it)"
    assert limit.suffix(3_000) == ""
