"""Changes to a cluster's finalized features, at the request of clients (KIP-584).

A broker in a ZooKeeper-based cluster supports no features, so no level can be set. Features that another program has
finalized can be disabled.

Source: `KafkaController.processFeatureUpdates` in Apache Kafka, whose error texts are kept.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kafkawire.reference_broker.cluster.controller.context import Context
from kafkawire.reference_broker.cluster.controller.lookout import raise_if_of_all
from kafkawire.reference_broker.cluster.controller.refusals import ACCEPTED, Refusal, refusal_of
from kafkawire.sdk.protocol.tables.enums import FeatureUpgradeType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import FEATURE, FinalizedFeature, FinalizedFeatures
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import Data, RegistryError, SetData
from kafkawire.sdk.registry.steps import Steps, checked, read

__all__ = ["FeatureUpdate", "update_features"]

_log = logging.getLogger("kafkawire.broker")

_KNOWN_TYPES: Final = frozenset(FeatureUpgradeType) - {FeatureUpgradeType.UNKNOWN}


class FeatureUpdate(NamedTuple):
    """A requested change of one feature.

    Attributes:
        feature: the feature's name.
        level: the level to finalize; below 1 to disable the feature.
        upgrade_type: see `FeatureUpgradeType`; other numbers are treated as UNKNOWN.
    """

    feature: str
    level: int
    upgrade_type: int

    @property
    def is_deletion(self) -> bool:
        """Whether the feature is to be disabled."""
        return self.level < 1 and self.upgrade_type != FeatureUpgradeType.UPGRADE


def update_features(
    context: Context, updates: Iterable[FeatureUpdate], *, validate_only: bool
) -> Steps[dict[str, Refusal]]:
    """Change the finalized features.

    Args:
        context: holds the epoch of the controller.
        updates: the changes; only the first one for each feature is used.
        validate_only: whether to check the changes without making them.

    Returns:
        The result for each feature.

    Raises:
        CheckFailed: another controller has been elected.
        RegistryError: the session has ended.
    """
    wanted: dict[str, FeatureUpdate] = {}
    for update in updates:
        wanted.setdefault(update.feature, update)
    results = dict.fromkeys(wanted, ACCEPTED)
    try:
        data = yield from read(FEATURE.path())
        levels = {} if data is None else _levels(data)
        results = {name: _judged(update, levels.get(name)) for name, update in wanted.items()}
        deleted = {name for name, result in results.items() if result == ACCEPTED}
        if data is not None and deleted and not validate_only:
            rest = FinalizedFeatures({name: each for name, each in levels.items() if name not in deleted})
            change = SetData(FEATURE.path(), FEATURE.encode(rest), data.stat.version)
            (outcome,) = yield from checked(context.check, (change,))
            if isinstance(outcome, RegistryError):
                raise outcome
    except (DamagedZnode, RegistryError) as error:
        if isinstance(error, RegistryError):
            raise_if_of_all(error)
        _log.error("the cluster's features were not updated: %s", error)
        failed = refusal_of(ErrorCode.FEATURE_UPDATE_FAILED)
        return {name: failed if result == ACCEPTED else result for name, result in results.items()}
    return results


def _levels(data: Data) -> Mapping[str, FinalizedFeature]:
    stored = FEATURE.decode(data.data, FEATURE.path())
    return stored.features if stored.status else {}


def _judged(update: FeatureUpdate, finalized: FinalizedFeature | None) -> Refusal:
    problem = _problem(update, None if finalized is None else finalized.max_version_level)
    return ACCEPTED if problem is None else Refusal(ErrorCode.INVALID_REQUEST, problem)


def _problem(update: FeatureUpdate, present: int | None) -> str | None:
    """Return why an update cannot be applied, given the present level; None if it disables the feature."""
    if not update.feature:
        return "Feature name can not be empty."
    if update.upgrade_type not in _KNOWN_TYPES:
        return "Received unknown upgrade type."
    if update.is_deletion:
        return "Can not delete non-existing finalized feature." if present is None else None
    if update.level < 1:
        text = f"Can not provide versionLevel: {update.level} less than 1"
        return f"{text} without setting the SAFE downgradeType in the request."
    problem = None if present is None else _problem_of_change(update, present)
    return problem or "Could not apply finalized feature update because the provided feature is not supported."


def _problem_of_change(update: FeatureUpdate, present: int) -> str | None:
    level, is_safe = update.level, update.upgrade_type == FeatureUpgradeType.SAFE_DOWNGRADE
    if level == present:
        change = "downgrade" if is_safe else "upgrade"
        return f"Can not {change} a finalized feature from existing versionLevel:{present} to the same value."
    if level < present and not is_safe:
        text = f"Can not downgrade finalized feature from existing versionLevel:{present}"
        return f"{text} to provided versionLevel:{level} without setting the downgradeType to SAFE in the request."
    if level > present and update.upgrade_type != FeatureUpgradeType.UPGRADE:
        text = f"When the downgradeType is set to SAFE in the request, the provided versionLevel:{level}"
        return f"{text} can not be greater than existing versionLevel:{present}."
    return None
