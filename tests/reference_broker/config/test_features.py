"""A feature is advertised only if its API is served.

Method: query the table of features with made-up sets of APIs.
"""

from kafkawire.reference_broker.config.features import FEATURES, features
from kafkawire.sdk.protocol.tables.apis import ApiKey


def test_features_of_the_apis_that_are_served():
    always = {"eligible.leader.replicas.version", "kraft.version", "metadata.version"}
    assert {feature.name for feature in features(set())} == always
    assert {feature.name for feature in features({ApiKey.END_TXN})} == always | {"transaction.version"}
    assert features(set(ApiKey)) == list(FEATURES)


def test_levels_are_those_of_kafka():
    levels = {
        feature.name: (feature.supported.first, feature.supported.last, feature.finalized) for feature in FEATURES
    }
    assert levels == {
        "eligible.leader.replicas.version": (0, 1, 1),
        "group.version": (0, 1, 1),
        "kraft.version": (0, 1, 1),
        "metadata.version": (7, 30, 30),
        "share.version": (0, 1, 1),
        "streams.version": (0, 1, 1),
        "transaction.version": (0, 2, 2),
    }


def test_the_chosen_level_is_a_supported_one():
    assert all(feature.finalized in feature.supported for feature in FEATURES)
