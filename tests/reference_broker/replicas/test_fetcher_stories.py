"""Whatever happens to a follower and its leaders, it has a prefix of one leader's log, and in the end all of it.

Method: let hypothesis choose the steps of a story, and a seed those of longer stories; see `fetcher_stories`.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkawire.reference_broker.replicas.followed import FOLLOWED_EDGES, FollowedState
from tests.edges import taken
from tests.reference_broker.replicas.fetcher_stories import DAMAGES, Story
from tests.thorough import sampled

#: Edges that stories need not take. In some of these states, a disk failure is noticed later or not at all; the other
#: edges need a configuration change, a leader that is wrong twice, or a leader whose log begins within a batch of an
#: epoch that the follower lacks. `test_followed` takes these edges.
_RARE = {
    *((before, FollowedState.FAILED) for before in FollowedState),
    (FollowedState.APPENDING, FollowedState.TRUNCATING),
    (FollowedState.TRUNCATING, FollowedState.APPENDING),
    (FollowedState.PAUSED, FollowedState.APPENDING),
    (FollowedState.ASKING, FollowedState.PAUSED),
}


@pytest.mark.parametrize("seed", sampled(range(160), 20))
def test_long_stories(seed: int) -> None:
    chance = Random(seed)
    story = Story(is_synced=seed % 2 == 0)
    for _ in range(150):
        story.step(chance)
    story.settle()


def test_stories_take_every_edge() -> None:
    """Otherwise, the stories would test less than they seem to."""
    with taken(FOLLOWED_EDGES) as steps:
        for seed in range(30):
            chance = Random(seed)
            story = Story(is_synced=seed % 2 == 0)
            for _ in range(150):
                story.step(chance)
    assert {*FOLLOWED_EDGES} - steps <= _RARE


class Following(RuleBasedStateMachine):
    """A story that hypothesis chooses, and shortens if it fails."""

    @initialize(is_synced=st.booleans())
    def begin(self, is_synced: bool) -> None:
        self.story = Story(is_synced=is_synced)

    @rule(count=st.integers(1, 4), size_bytes=st.sampled_from([1, 60, 150]), is_committed=st.booleans())
    def append(self, count: int, size_bytes: int, is_committed: bool) -> None:
        self.story.append(count, size_bytes, is_committed=is_committed)

    @rule()
    def commit(self) -> None:
        self.story.commit()

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        self.story.delete_records(share)

    @rule(back=st.integers(0, 2), share=st.floats(0, 1.3), is_told=st.booleans())
    def elect(self, back: int, share: float, is_told: bool) -> None:
        self.story.elect(back, share, is_told=is_told)

    @rule()
    def forget_sessions(self) -> None:
        self.story.forget_sessions()

    @rule()
    def tell(self) -> None:
        self.story.tell()

    @rule(count=st.integers(1, 3))
    def exchange(self, count: int) -> None:
        for _ in range(count):
            self.story.exchange()

    @rule(is_served=st.booleans())
    def ask(self, is_served: bool) -> None:
        self.story.ask()
        if is_served:
            self.story.serve()

    @rule()
    def deliver(self) -> None:
        self.story.serve()
        self.story.deliver()

    @rule()
    def lose(self) -> None:
        self.story.lose()

    @rule(damage=st.sampled_from(DAMAGES))
    def change_the_next_answer(self, damage: str) -> None:
        self.story.damage = damage

    @rule(count=st.sampled_from([1, 2, None]))
    def run(self, count: int | None) -> None:
        self.story.run(count)

    @rule(duration_ms=st.sampled_from([1, 20, 1_000]))
    def wait(self, duration_ms: int) -> None:
        self.story.wait(duration_ms)

    @rule()
    def trim(self) -> None:
        self.story.trim()

    @rule(calls=st.integers(1, 30))
    def fail_disk(self, calls: int) -> None:
        self.story.fail_disk(calls)

    @rule(seed=st.none() | st.integers(0, 2**16))
    def crash(self, seed: int | None) -> None:
        self.story.crash(seed)

    @rule()
    def stop(self) -> None:
        self.story.stop()

    @rule()
    def settle(self) -> None:
        self.story.settle()

    @invariant()
    def it_has_the_beginning_of_what_one_leader_had(self) -> None:
        self.story.check()

    def teardown(self) -> None:
        self.story.settle()


Following.TestCase.settings = settings(
    max_examples=300,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    derandomize=True,
)
TestFollowing = pytest.mark.thorough(Following.TestCase)
