"""A change to features is accepted only if it changes nothing; of several problems, the one that Kafka finds is named.

Method: check a table of changes; `test_update_features.py` compares the texts with Kafka's.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.config.features import FEATURES, Feature
from kafkawire.reference_broker.metadata.feature_changes import check_feature_changes
from kafkawire.sdk.protocol.tables.enums import FeatureUpgradeType
from kafkawire.sdk.protocol.versions import VersionRange

LEVELS = {feature.name: feature.finalized for feature in FEATURES}

UPGRADE, SAFE, UNSAFE = (FeatureUpgradeType(number) for number in (1, 2, 3))


@pytest.mark.parametrize("kind", [UPGRADE, SAFE, UNSAFE])
def test_the_present_levels(kind: FeatureUpgradeType) -> None:
    wanted = {name: (level, int(kind)) for name, level in LEVELS.items()}
    assert check_feature_changes(wanted, FEATURES, LEVELS, 7) is None


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
@pytest.mark.parametrize("kind", [UPGRADE, SAFE, UNSAFE])
def test_every_lower_level_is_refused(feature: Feature, kind: FeatureUpgradeType) -> None:
    for level in range(feature.supported.first, feature.finalized):
        problem = check_feature_changes({feature.name: (level, kind)}, FEATURES, LEVELS, 7)
        assert problem is not None
        assert feature.name in problem


def test_the_first_problem_in_the_order_of_java() -> None:
    problem = check_feature_changes({"y": (1, 1), "q": (1, 1)}, FEATURES, LEVELS, 7)
    expected = "Invalid update version 1 for feature q. Local controller 7 does not support this feature."
    assert problem == expected, "q is in bucket 1 of 16, y in bucket 9"


def test_a_feature_that_is_not_finalized() -> None:
    feature = Feature("f", VersionRange(0, 1), 0, None)
    assert check_feature_changes({"f": (0, 1)}, [feature], {}, 7) is None
