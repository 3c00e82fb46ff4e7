"""Changes to the finalized levels of features, as an admin takes them.

Source: KIP-584; KIP-778 (types of upgrades).
"""

from typing import Final, NamedTuple

from kafkawire.sdk.client.arguments import checked_mapping, checked_number, checked_text
from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.tables.enums import FeatureUpgradeType
from kafkawire.sdk.protocol.values import quoted

__all__ = ["FeatureUpdate", "checked_feature_updates"]

#: Levels take 2 bytes on the wire.
_LEVEL_MAX: Final = (1 << 15) - 1


class FeatureUpdate(NamedTuple):
    """A change to the finalized level of a feature.

    Attributes:
        max_version_level: the new level; 0 disables the feature.
        upgrade_type: UPGRADE, or whether and how the level may be lowered: SAFE_DOWNGRADE only if nothing is lost,
            UNSAFE_DOWNGRADE in any case.
    """

    max_version_level: int
    upgrade_type: FeatureUpgradeType = FeatureUpgradeType.UPGRADE


def checked_feature_updates(given: object) -> dict[str, FeatureUpdate]:
    """Return changes to features, keyed by name; a bare number is a level to upgrade to.

    Raises:
        LocalProtocolError: the value is not a mapping of names to numbers or `FeatureUpdate`s, or it is empty.
    """
    checked: dict[str, FeatureUpdate] = {}
    for key, value in checked_mapping("updates", given).items():
        name = checked_text("name of a feature", key)
        update = value if isinstance(value, FeatureUpdate) else FeatureUpdate(value)
        level = checked_number(f"max_version_level of {name}", update.max_version_level, 0, _LEVEL_MAX)
        if not isinstance(update.upgrade_type, FeatureUpgradeType) or not update.upgrade_type:
            kinds = ", ".join(each.name for each in FeatureUpgradeType if each)
            text = f"expected a FeatureUpgradeType ({kinds}), got {quoted(update.upgrade_type, 100)}"
            raise LocalProtocolError(f"upgrade_type of {name}: {text}")
        checked[name] = FeatureUpdate(level, update.upgrade_type)
    if not checked:
        raise LocalProtocolError("updates: expected at least one feature")
    return checked
