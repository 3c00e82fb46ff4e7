"""If the features cannot be written, the update fails for those that would have changed, and for no others.

Method: use a scripted cluster whose registry refuses to write the features.
"""

from __future__ import annotations

from kafkawire.reference_broker.cluster.controller.feature_updates import FeatureUpdate
from kafkawire.reference_broker.cluster.controller.refusals import refusal_of
from kafkawire.sdk.protocol.tables.enums import FeatureUpgradeType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import FEATURE, FinalizedFeature, FinalizedFeatures
from kafkawire.sdk.registry.registry import RegistryCode, SetData
from tests.reference_broker.cluster.controller.scripted_cluster import Cluster


def test_a_write_that_fails() -> None:
    cluster = Cluster(0)
    content = FEATURE.encode(FinalizedFeatures({"f": FinalizedFeature(1)}))
    cluster.tree.change(SetData(FEATURE.path(), content), 0)
    registry = cluster.brokers[0].registry
    registry.error_of = lambda operation: RegistryCode.NO_AUTH if isinstance(operation, SetData) else None
    results: list[object] = []
    updates = [FeatureUpdate(name, 0, FeatureUpgradeType.SAFE_DOWNGRADE) for name in ("f", "none")]
    cluster.controller.update_features(updates, results.append, validate_only=False)
    cluster.settle()
    (result,) = results
    assert isinstance(result, dict)
    assert result["f"] == refusal_of(ErrorCode.FEATURE_UPDATE_FAILED)
    assert result["none"].error_code is ErrorCode.INVALID_REQUEST
    assert cluster.controller.is_active
    assert cluster.tree.nodes[FEATURE.path()].data == content
