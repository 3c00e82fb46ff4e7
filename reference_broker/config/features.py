"""The features of a cluster, as reported by ApiVersions (KIP-584).

A feature is advertised if its API is served; Kafka's internal features are always advertised.

Source: Apache Kafka, `Feature`, `MetadataVersion`; the levels are those of a new cluster in release 4.3.0.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final, NamedTuple

from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import TRANSACTION_VERSION_FEATURE, TransactionVersion
from kafkawire.sdk.protocol.versions import VersionRange

__all__ = ["FEATURES", "METADATA_VERSION_FEATURE", "SHARE_VERSION_FEATURE", "Feature", "features"]


#: The feature that stands for the format of Kafka's metadata.
METADATA_VERSION_FEATURE: Final = "metadata.version"

#: The feature of clusters with share groups.
SHARE_VERSION_FEATURE: Final = "share.version"


class Feature(NamedTuple):
    """A feature.

    Attributes:
        name: Kafka's name.
        supported: the levels that can be chosen.
        finalized: the chosen level.
        api: the API that the feature requires, or None if every broker has the feature.
    """

    name: str
    supported: VersionRange
    finalized: int
    api: ApiKey | None


FEATURES: Final = (
    Feature("group.version", VersionRange(0, 1), 1, ApiKey.CONSUMER_GROUP_HEARTBEAT),
    Feature("kraft.version", VersionRange(0, 1), 1, None),
    Feature(METADATA_VERSION_FEATURE, VersionRange(7, 30), 30, None),
    Feature(SHARE_VERSION_FEATURE, VersionRange(0, 1), 1, ApiKey.SHARE_GROUP_HEARTBEAT),
    Feature("streams.version", VersionRange(0, 1), 1, ApiKey.STREAMS_GROUP_HEARTBEAT),
    Feature(
        TRANSACTION_VERSION_FEATURE,
        VersionRange(TransactionVersion.TV_0, TransactionVersion.TV_2),
        TransactionVersion.TV_2,
        ApiKey.END_TXN,
    ),
    Feature("eligible.leader.replicas.version", VersionRange(0, 1), 1, None),
)


def features(served: Container[int]) -> list[Feature]:
    """Return the features of a broker that serves the given APIs."""
    return [feature for feature in FEATURES if feature.api is None or feature.api in served]
