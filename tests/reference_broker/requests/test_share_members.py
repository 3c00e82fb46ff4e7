"""Members choose their ids themselves, within the length of a UUID.

Method: check ids.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.requests.share_members import is_member_id


@pytest.mark.parametrize(
    ("member_id", "is_valid"),
    [
        (None, False),
        ("", False),
        (" ", True),
        ("m" * 36, True),
        ("m" * 37, False),
        ("\N{GRINNING FACE}" * 18, True),
        ("\N{GRINNING FACE}" * 19, False),
    ],
)
def test_member_ids(member_id, is_valid):
    assert is_member_id(member_id) is is_valid
