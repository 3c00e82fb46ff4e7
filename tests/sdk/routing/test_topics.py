"""Names that no topic can have are refused with a reason; errors about common mistakes say what to do.

Method: check a table of names.
"""

from __future__ import annotations

from enum import Enum, StrEnum

import pytest

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.routing.topics import LEGAL_NAME, checked_topic, checked_topics

CHARACTERS = f"expected {LEGAL_NAME}"


@pytest.mark.parametrize("name", ["t", "a.b_c-D9", "__consumer_offsets", "...", "a" * 249])
def test_accepted(name: str) -> None:
    assert checked_topic(name) == name
    assert checked_topics([name, "t"]) == {name, "t"}


class Topics(StrEnum):
    ORDERS = "orders"


class OlderTopics(str, Enum):  # noqa: UP042  # programs that are older than StrEnum have such classes
    ORDERS = "orders"


@pytest.mark.parametrize("name", [Topics.ORDERS, OlderTopics.ORDERS])
def test_members_of_enumerations_are_their_values(name: str) -> None:
    assert checked_topic(name) == "orders"
    assert type(checked_topic(name)) is str


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            ["a", "b"],
            "topic ['a', 'b']: expected a string, got list; pass several as separate arguments or in a list",
        ),
        (("a",), "topic ('a',): expected a string, got tuple; pass several as separate arguments or in a list"),
        (b"a", "topic b'a': expected a string, got bytes"),
        (None, "topic None: expected a string, got NoneType"),
        ("^a.*", f"topic '^a.*': {CHARACTERS}; to subscribe to topics by pattern: subscribe(pattern=…)"),
        ("", f"topic '': {CHARACTERS}"),
        (".", f"topic '.': {CHARACTERS}"),
        ("..", f"topic '..': {CHARACTERS}"),
        ("a b", f"topic 'a b': {CHARACTERS}"),
        ("a\n", f"topic 'a\\n': {CHARACTERS}"),
        ("grüße", f"topic 'grüße': {CHARACTERS}"),
        ("broker:9092", f"topic 'broker:9092': {CHARACTERS}; the servers are the first argument"),
        ("a" * 250, f"topic '{'a' * 250}': {CHARACTERS}"),
    ],
)
def test_refused(name: object, message: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        checked_topic(name)
    assert str(caught.value) == message
    with pytest.raises(LocalProtocolError):
        checked_topics(["t", name])
