"""Users choose topics by name, by pattern or by excluded pattern; protocols reject what they do not support."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.client.options import ConsumerOptions, read_options
from kafkawire.sdk.consumer.topic_choice import choose_topics
from kafkawire.sdk.errors import ConfigurationError, LocalProtocolError

PROTOCOLS = (None, "classic", "consumer", "auto", "zookeeper")


def options_for(protocol: str | None) -> ConsumerOptions:
    """Return a consumer's options; if the protocol is None, the consumer has no group."""
    given: dict[str, Any] = {} if protocol is None else {"group_id": "g", "group_protocol": protocol}
    if protocol == "zookeeper":
        given["zookeeper_connect"] = "z:1"
    return read_options(ConsumerOptions, "a", given)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_names_and_patterns(protocol: str | None) -> None:
    options = options_for(protocol)
    assert choose_topics(options, (["t", "u"],), None, None).names == {"t", "u"}
    chosen = choose_topics(options, (), "t.*", None)
    assert (chosen.pattern, chosen.excludes) == ("t.*", False)
    if protocol not in ("consumer", "auto"):
        chosen = choose_topics(options, (), None, "t.*")
        assert (chosen.pattern, chosen.excludes) == ("t.*", True)


@pytest.mark.parametrize(
    ("protocol", "topics", "patterns", "reason"),
    [
        *((protocol, (), (None, None), "expected topic names or a pattern") for protocol in PROTOCOLS),
        *((protocol, ("t",), ("t", None), "expected topic names or a pattern") for protocol in PROTOCOLS),
        *(
            (protocol, (), ("a", "b"), "excluded_pattern='b': cannot be combined with pattern='a'")
            for protocol in PROTOCOLS
        ),
        *((protocol, (), ("(", None), r"pattern='\('") for protocol in PROTOCOLS if protocol != "consumer"),
        (None, (), (None, "("), r"excluded_pattern='\('"),
        ("classic", (), (None, "("), r"excluded_pattern='\('"),
        ("zookeeper", (), (None, "[a[b]]"), r"excluded_pattern='\[a\[b\]\]': a character class must not"),
        ("consumer", (), (None, "x"), "excluded_pattern='x': has no effect with group_protocol=\"consumer\""),
        ("auto", (), (None, "x"), "excluded_pattern='x': has no effect with group_protocol=\"auto\""),
    ],
)
def test_what_is_refused(
    protocol: str | None, topics: tuple[str, ...], patterns: tuple[str | None, str | None], reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        choose_topics(options_for(protocol), topics, *patterns)


@pytest.mark.parametrize("name", ["pattern", "excluded_pattern"])
def test_a_pattern_is_text(name: str) -> None:
    given: dict[str, Any] = {"pattern": None, "excluded_pattern": None, name: 5}
    with pytest.raises(LocalProtocolError, match=name):
        choose_topics(options_for(None), (), **given)
