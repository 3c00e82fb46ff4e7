"""Changes to features are checked before a request is sent.

Method: check tables of arguments.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.admin.feature_updates import FeatureUpdate, checked_feature_updates
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.tables.enums import FeatureUpgradeType

SAFE = FeatureUpgradeType.SAFE_DOWNGRADE


def test_a_number_is_a_level_to_upgrade_to() -> None:
    given = {"a": 1, "b": FeatureUpdate(0, SAFE)}
    assert checked_feature_updates(given) == {
        "a": FeatureUpdate(1, FeatureUpgradeType.UPGRADE),
        "b": FeatureUpdate(0, SAFE),
    }


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([("a", 1)], "^updates: expected a mapping"),
        ({}, "^updates: expected at least one feature$"),
        ({1: 1}, "^name of a feature: expected a string"),
        ({"a": -1}, "^max_version_level of a: expected 0 to 32767, got -1$"),
        ({"a": 32768}, "^max_version_level of a"),
        ({"a": "1"}, "^max_version_level of a: expected an integer"),
        ({"a": FeatureUpdate(1, 2)}, "^upgrade_type of a: expected a FeatureUpgradeType .UPGRADE, SAFE_DOWNGRADE"),  # type: ignore[arg-type]  # wrong
        ({"a": FeatureUpdate(1, FeatureUpgradeType.UNKNOWN)}, "^upgrade_type of a"),
    ],
)
def test_what_is_refused(given: object, text: str) -> None:
    with pytest.raises(LocalProtocolError, match=text):
        checked_feature_updates(given)
