"""A quorum's state is a JSON object whose numbers JSON can represent.

Method: read content that Apache Kafka writes, and other content.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.storage.damage import DamagedContent
from kafkawire.sdk.storage.quorum_state import parse_quorum_state


def test_what_it_says() -> None:
    content = b'{"leaderId":1,"leaderEpoch":7,"votedId":-1,"currentVoters":[{"voterId":1}],"data_version":0}'
    found = parse_quorum_state(content)
    assert (found["leaderId"], found["leaderEpoch"], found["currentVoters"]) == (1, 7, [{"voterId": 1}])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON: "),
        (b"{", "not JSON: "),
        (b"[" * 100_000, "not JSON: "),
        (b"[]", "not a JSON object"),
        (b'{"leaderId":NaN}', "not JSON: NaN is not a finite number"),
        (b'{"leaderId":1e999}', "not JSON: 1e999 is not a finite number"),
        (b'{"leaderId":"\xff"}', "not UTF-8: invalid start byte 0xff"),
    ],
)
def test_damage(content: bytes, reason: str) -> None:
    with pytest.raises(DamagedContent, match=f"^{reason}"):
        parse_quorum_state(content)
