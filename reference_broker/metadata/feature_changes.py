"""Which changes to finalized features a standalone broker accepts.

Its features have the newest levels, as in a new cluster of Apache Kafka, and nothing in it works at a lower one. So it
accepts changes that change nothing, and refuses all others, including those that Kafka would make.

Source: Apache Kafka, `FeatureControlManager`, `QuorumFeatures`, whose error texts are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kafkawire.reference_broker.config.features import METADATA_VERSION_FEATURE, Feature
from kafkawire.sdk.protocol.java_order import java_order, string_hash
from kafkawire.sdk.protocol.tables.enums import FeatureUpgradeType
from kafkawire.sdk.protocol.versions import VersionRange

__all__ = ["check_feature_changes"]

_KNOWN_TYPES: Final = frozenset(FeatureUpgradeType) - {FeatureUpgradeType.UNKNOWN}

#: The levels of a feature that a broker does not have.
_DISABLED: Final = VersionRange(0, 0)


def check_feature_changes(
    wanted: Mapping[str, tuple[int, int]], features: Sequence[Feature], levels: Mapping[str, int], node_id: int
) -> str | None:
    """Return why one of the changes cannot be made; None if all of them can.

    Args:
        wanted: the level and the upgrade type of each feature, keyed by name.
        features: the features that the broker supports.
        levels: the finalized level of each feature.
        node_id: the broker, for the text.
    """
    supported = {feature.name: feature.supported for feature in features}
    for name in java_order(list(wanted), string_hash):
        level, upgrade_type = wanted[name]
        problem = _problem(name, level, upgrade_type, supported.get(name, _DISABLED), levels.get(name, 0), node_id)
        if problem is not None:
            return problem
    return None


def _problem(
    name: str, level: int, upgrade_type: int, supported: VersionRange, present: int, node_id: int
) -> str | None:
    invalid = f"Invalid update version {level} for feature {name}."
    if upgrade_type not in _KNOWN_TYPES:
        return f"{invalid} The controller does not support the given upgrade type."
    if level < 0:
        return f"{invalid} A feature version cannot be less than 0."
    if not supported.first <= level <= supported.last:
        if not supported.last:
            return f"{invalid} Local controller {node_id} does not support this feature."
        return f"{invalid} Local controller {node_id} only supports versions {supported.first}-{supported.last}"
    if not supported.last:
        return f"{invalid} Feature {name} not found."
    if level == present:
        return None
    if upgrade_type == FeatureUpgradeType.UPGRADE:
        return (
            f"{invalid} Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    if name == METADATA_VERSION_FEATURE:
        reason = (
            "Unsafe metadata downgrade is not supported in this version."
            if upgrade_type == FeatureUpgradeType.UNSAFE_DOWNGRADE
            else "Refusing to perform the requested downgrade because it might delete metadata information."
        )
        return f"Unsupported {name} downgrade from {present} to {level}. {reason}"
    return f"{invalid} Can't downgrade the version of this feature."
