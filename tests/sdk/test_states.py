"""A state table allows only its edges, and rejects others with an error that names the machine and both states."""

from __future__ import annotations

from enum import Enum, auto

import pytest

from kafkawire.sdk.errors import KafkaWireError, LocalProtocolError
from kafkawire.sdk.states import Edges, RefusedEdge
from tests.edges import taken


class Light(Enum):
    RED = auto()
    GREEN = auto()
    BROKEN = auto()


LIGHT = Edges(
    "a traffic light",
    (Light.RED,),
    {Light.RED: {Light.RED: "nobody waits", Light.GREEN: "somebody waits"}, Light.GREEN: {Light.RED: "time is up"}},
    from_any={Light.BROKEN: "struck by lightning"},
)
ALL = [
    (Light.RED, Light.RED),
    (Light.RED, Light.GREEN),
    (Light.RED, Light.BROKEN),
    (Light.GREEN, Light.RED),
    (Light.GREEN, Light.BROKEN),
    (Light.BROKEN, Light.BROKEN),
]


def test_what_a_table_holds() -> None:
    assert list(LIGHT) == ALL
    assert (LIGHT.first, LIGHT.is_derived) == ((Light.RED,), False)


@pytest.mark.parametrize("before", Light)
@pytest.mark.parametrize("after", Light)
def test_edges_are_followed_and_all_others_refused(before: Light, after: Light) -> None:
    if (before, after) in ALL:
        assert LIGHT.follow(before, after) is after
    else:
        with pytest.raises(RefusedEdge, match=f"a traffic light cannot become {after.name} while it is {before.name}"):
            LIGHT.follow(before, after)


@pytest.mark.parametrize(
    ("edges", "follows"), [({}, "nothing"), ({Light.RED: {Light.RED: "", Light.BROKEN: ""}}, "RED, BROKEN")]
)
def test_an_error_says_what_may_follow(edges: dict[Light, dict[Light, str]], follows: str) -> None:
    with pytest.raises(RefusedEdge, match=f"GREEN while it is RED; {follows} may follow"):
        Edges("a light", (Light.RED,), edges).follow(Light.RED, Light.GREEN)


def test_a_defect_is_no_error_that_a_client_raises_on_purpose() -> None:
    assert not issubclass(RefusedEdge, KafkaWireError)


def test_a_machine_that_its_caller_drives_has_an_error_of_its_own() -> None:
    with pytest.raises(LocalProtocolError, match="a light cannot become GREEN"):
        Edges("a light", (Light.RED,), {}, error=LocalProtocolError).follow(Light.RED, Light.GREEN)


def test_the_edges_that_are_taken_can_be_noted() -> None:
    with taken(LIGHT) as steps:
        LIGHT.follow(Light.RED, Light.GREEN)
        Edges("a light", (Light.RED,), {Light.GREEN: {Light.RED: ""}}).follow(Light.GREEN, Light.RED)
        with pytest.raises(RefusedEdge):
            LIGHT.follow(Light.BROKEN, Light.RED)
    LIGHT.follow(Light.GREEN, Light.RED)
    assert steps == {(Light.RED, Light.GREEN)}
