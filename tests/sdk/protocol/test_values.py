"""Field values compare by what they hold.

Method: pairs of sequences and buffers.
"""

from __future__ import annotations

from kafkawire.sdk.protocol.values import equal, hidden_slot


def test_equal() -> None:
    assert equal([1, (2, b"x")], (1, [2, bytearray(b"x")]))
    assert not equal([1], [1, 2])


def test_a_hidden_slot() -> None:
    assert hidden_slot("current_leader") == "_current_leader"
