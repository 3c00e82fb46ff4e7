"""A `DamagedContent` says what is wrong and where."""

from __future__ import annotations

import pytest

from kafkawire.sdk.storage.damage import DamagedContent, refuse, stored_text


def test_what_it_says() -> None:
    damage = DamagedContent("a reason", 7)
    assert (str(damage), damage.reason, damage.position) == ("a reason", "a reason", 7)
    assert DamagedContent("a reason").position is None


def test_it_is_refused() -> None:
    damage = DamagedContent("a reason")
    with pytest.raises(DamagedContent) as caught:
        refuse(damage)
    assert caught.value is damage


def test_text() -> None:
    assert stored_text("é\n".encode()) == "é\n"
    with pytest.raises(DamagedContent, match="not UTF-8: unexpected end of data 0xc3") as caught:
        stored_text(b"ab\xc3")
    assert caught.value.position == 2
