"""What assignors know of members."""

from __future__ import annotations

from kafkawire.reference_broker.groups.consumer.subscribers import Subscriber


def test_a_subscriber():
    member = Subscriber(None, frozenset({b"t" * 16}), {})
    assert (member.instance_id, member.current) == (None, {})
