"""UpdateFeatures disables features, and refuses anything else, as an Apache Kafka 3 controller without features does.

A standalone broker refuses to lower a level.

Method: call the handlers of the controller's broker, without sockets, after another program has finalized a feature;
send the requests of `admin_cases.py`, with Kafka's answers, to a standalone broker.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import FeatureUpgradeType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import FEATURE, FinalizedFeature, FinalizedFeatures
from kafkawire.sdk.registry.registry import SetData
from tests.reference_broker.apis.admin_cases import admin_cases
from tests.reference_broker.apis.asked_bench import check_admin
from tests.reference_broker.apis.asked_cases import Case, name_of
from tests.reference_broker.apis.controlling_broker import ControllingBroker
from tests.reference_broker.broker_bench import BrokerBench

VERSIONS = (0, 1)
NEWEST = VERSIONS[-1]

Update = UpdateFeaturesRequest.FeatureUpdateKey


@pytest.fixture
def broker() -> ControllingBroker:
    """The controller of a cluster that has finalized `f` at level 3, and `g` at some level."""
    broker = ControllingBroker(0)
    content = FEATURE.encode(FinalizedFeatures({name: FinalizedFeature(3) for name in "fg"}))
    broker.cluster.tree.change(SetData(FEATURE.path(), content), 0)
    return broker


def stored(broker: ControllingBroker) -> dict[str, int]:
    features = FEATURE.decode(broker.cluster.tree.nodes[FEATURE.path()].data).features
    return {name: each.max_version_level for name, each in features.items()}


def results(response: UpdateFeaturesResponse) -> dict[str, tuple[int, str | None]]:
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    return {each.feature: (each.error_code, each.error_message) for each in response.results}


def disabling(*features: str, version: int = NEWEST) -> UpdateFeaturesRequest:
    kind = FeatureUpgradeType.SAFE_DOWNGRADE if version else FeatureUpgradeType.UPGRADE
    return UpdateFeaturesRequest(feature_updates=[Update(each, 0, not version, kind) for each in features])


DONE = (ErrorCode.NONE, "NONE")
MISSING = (ErrorCode.INVALID_REQUEST, "Can not delete non-existing finalized feature.")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_feature_is_disabled(broker: ControllingBroker, version: int) -> None:
    assert results(broker.ask(disabling("f", "none", version=version), version)) == {"f": DONE, "none": MISSING}
    assert stored(broker) == {"g": 3}
    assert results(broker.ask(disabling("f", version=version), version)) == {"f": MISSING}


def test_validation_alone_changes_nothing(broker: ControllingBroker) -> None:
    request = disabling("f")
    request.validate_only = True
    assert results(broker.ask(request, NEWEST)) == {"f": DONE}
    assert stored(broker) == {"f": 3, "g": 3}


UPGRADE, SAFE, UNSAFE = (
    FeatureUpgradeType.UPGRADE,
    FeatureUpgradeType.SAFE_DOWNGRADE,
    FeatureUpgradeType.UNSAFE_DOWNGRADE,
)
UNSUPPORTED = "Could not apply finalized feature update because the provided feature is not supported."

REFUSED = [
    (("", 1, UPGRADE), "Feature name can not be empty."),
    (("f", 4, FeatureUpgradeType.UNKNOWN), "Received unknown upgrade type."),
    (("f", 4, 9), "Received unknown upgrade type."),
    (
        ("f", 0, UPGRADE),
        "Can not provide versionLevel: 0 less than 1 without setting the SAFE downgradeType in the request.",
    ),
    (("f", 3, UPGRADE), "Can not upgrade a finalized feature from existing versionLevel:3 to the same value."),
    (("f", 3, SAFE), "Can not downgrade a finalized feature from existing versionLevel:3 to the same value."),
    (
        ("f", 2, UPGRADE),
        "Can not downgrade finalized feature from existing versionLevel:3 to provided versionLevel:2 without setting "
        "the downgradeType to SAFE in the request.",
    ),
    (
        ("f", 4, UNSAFE),
        "When the downgradeType is set to SAFE in the request, the provided versionLevel:4 can not be greater than "
        "existing versionLevel:3.",
    ),
    (("f", 4, UPGRADE), UNSUPPORTED),
    (("f", 2, SAFE), UNSUPPORTED),
    (("new", 1, UPGRADE), UNSUPPORTED),
]


@pytest.mark.parametrize(("wanted", "text"), REFUSED)
def test_what_is_refused(broker: ControllingBroker, wanted: tuple[str, int, int], text: str) -> None:
    feature, level, kind = wanted
    request = UpdateFeaturesRequest(feature_updates=[Update(feature, level, False, kind)])
    assert results(broker.ask(request, NEWEST)) == {feature: (ErrorCode.INVALID_REQUEST, text)}
    assert stored(broker) == {"f": 3, "g": 3}


def test_the_first_wish_for_a_feature_counts(broker: ControllingBroker) -> None:
    request = disabling("f")
    request.feature_updates = [*request.feature_updates, Update("f", 9, False, UPGRADE)]
    assert results(broker.ask(request, NEWEST)) == {"f": DONE}


def test_a_node_that_cannot_be_read(broker: ControllingBroker) -> None:
    broker.cluster.tree.change(SetData(FEATURE.path(), b"{"), 0)
    text = "Unable to update finalized features due to an unexpected server error."
    assert results(broker.ask(disabling("f"), NEWEST)) == {"f": (ErrorCode.FEATURE_UPDATE_FAILED, text)}


def test_a_broker_that_is_not_the_controller(broker: ControllingBroker) -> None:
    broker.controller.close()
    response = broker.ask(disabling("f"), NEWEST)
    found = (response.error_code, response.error_message, response.results)
    assert found == (ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster.", ())


@pytest.mark.parametrize("case", admin_cases(ApiKey.UPDATE_FEATURES), ids=name_of)
def test_answers_of_a_standalone_broker(case: Case) -> None:
    check_admin(BrokerBench(MemoryDisk()), case)
