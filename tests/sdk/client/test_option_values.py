"""Values of options are accepted in every form that users write them, and refused with what was expected.

What a client does with them is in `test_options.py`.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafkawire.sdk.client.option_values import (
    ACKS,
    COMPRESSIONS,
    ISOLATION_LEVELS,
    name_or_none,
    read_acks,
    read_compression,
    read_isolation_level,
)
from kafkawire.sdk.client.options import ConsumerOptions, read_options
from kafkawire.sdk.errors import ConfigurationError


def test_members_and_their_names() -> None:
    for name, member in COMPRESSIONS.items():
        assert read_compression("compression", name) is read_compression("compression", member) is member
    for name, level in ISOLATION_LEVELS.items():
        assert read_isolation_level("isolation_level", name) is read_isolation_level("isolation_level", level) is level
    assert [read_acks("acks", given) for given in ACKS] == list(ACKS.values())


def test_names_that_may_be_left_out() -> None:
    read = name_or_none("do without")
    assert (read("option", "given"), read("option", None)) == ("given", None)
    with pytest.raises(ConfigurationError, match="expected a name; leave it out to do without"):
        read("option", "")


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        ("earliest", "earliest"),
        ("by_duration:P1DT1H1M1.5S", 90_061_500),
        (timedelta(days=1, milliseconds=5), 86_400_005),
        (timedelta(), 0),
    ],
)
def test_reset_policies(policy: str | timedelta, kept: str | int) -> None:
    assert read_options(ConsumerOptions, "a", {"auto_offset_reset": policy}).auto_offset_reset == kept
