"""UpdateFeatures: change the finalized features of a cluster.

0: the lowest version (KIP-584). 1: upgrade types, requests that just validate (KIP-778). 2, only in a standalone
    broker: no results per feature.

The brokers of a ZooKeeper-based cluster support no features. There, Apache Kafka 3 makes the changes even if a request
just asks for validation; this broker then changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kafkawire.reference_broker.cluster.controller.asked_controller import AskedController
from kafkawire.reference_broker.cluster.controller.feature_updates import FeatureUpdate
from kafkawire.reference_broker.cluster.controller.refusals import Refusal
from kafkawire.reference_broker.config.features import Feature
from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.metadata.feature_changes import check_feature_changes
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.requests.api_handlers import Scope, serves, since
from kafkawire.reference_broker.requests.authorization import allows_on_cluster, require_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, given_later
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, FeatureUpgradeType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle", "handle_in_cluster"]

Result = UpdateFeaturesResponse.UpdatableFeatureResult

_VERSIONS = next(field.versions for field in UpdateFeaturesResponse.FIELDS if field.name == "results")

#: The first version with an upgrade type, rather than a flag for whether the level may be lowered.
_KINDS_SINCE = since(UpdateFeaturesRequest.FeatureUpdateKey, "upgrade_type")


@serves(ApiKey.UPDATE_FEATURES, scope=Scope.ALONE)
def handle(
    call: Call,
    request: UpdateFeaturesRequest,
    *,
    authorizer: Authorizer,
    features: Sequence[Feature],
    metadata: MetadataCache,
    options: BrokerOptions,
) -> Work[UpdateFeaturesResponse]:
    """Handle UpdateFeatures for a standalone broker, whose features always have the same levels.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED.
    """
    require_on_cluster(authorizer, call, AclOperation.ALTER)
    wanted: dict[str, tuple[int, int]] = {}
    for update in request.feature_updates:
        # In version 0, Kafka 4 ignores whether the level may be lowered.
        wanted[update.feature] = update.max_version_level, update.upgrade_type
        yield
    problem = check_feature_changes(wanted, features, metadata.image.features.levels, options.node_id)
    if problem is not None:
        text = f"The update failed for all features since the following feature had an error: {problem}"
        return UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=text)
    results = []
    for update in request.feature_updates if call.version in _VERSIONS else ():
        results.append(Result(update.feature, ErrorCode.NONE, ErrorCode.NONE.name))
        yield
    return UpdateFeaturesResponse(error_message=None, results=results)


@serves(ApiKey.UPDATE_FEATURES, _VERSIONS, scope=Scope.CLUSTER)
def handle_in_cluster(
    call: Call, request: UpdateFeaturesRequest, *, authorizer: Authorizer, controller: AskedController
) -> Work[UpdateFeaturesResponse | DelayedOperation]:
    """Handle UpdateFeatures in a cluster; the response waits until the features are stored."""
    if not allows_on_cluster(authorizer, call, AclOperation.ALTER):
        return _response(Refusal(*_MAY_NOT_ALTER))
    updates = []
    for update in request.feature_updates:
        kind = update.upgrade_type
        if call.version < _KINDS_SINCE:
            kind = FeatureUpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else FeatureUpgradeType.UPGRADE
        updates.append(FeatureUpdate(update.feature, update.max_version_level, kind))
        yield

    def ask(give: Callable[[UpdateFeaturesResponse], None]) -> None:
        controller.update_features(
            updates, lambda results: give(_response(results)), validate_only=request.validate_only
        )

    return given_later(ask)


#: The error of a client that may not alter the cluster.
_MAY_NOT_ALTER = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")


def _response(results: Mapping[str, Refusal] | Refusal) -> UpdateFeaturesResponse:
    if isinstance(results, Refusal):
        return UpdateFeaturesResponse(error_code=results.error_code, error_message=results.message)
    # As in Apache Kafka, the text is the name of the code if there is no error.
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            Result(name, code, ErrorCode.NONE.name if code is ErrorCode.NONE else message)
            for name, (code, message) in results.items()
        ],
    )
