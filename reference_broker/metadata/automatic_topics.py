"""Automatic creation of missing topics that clients ask about, in the background: responses do not wait for it.

Failures are logged, since the client learns only that the topic is unknown.

Source: `AutoTopicCreationManager` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.metadata.image import TopicImage
from kafkawire.reference_broker.metadata.internal_topics import plan_topic
from kafkawire.reference_broker.metadata.new_topics import PARTITIONS_MAX
from kafkawire.reference_broker.metadata.topic_controller import Permit, TopicController, unlimited
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["create_automatically"]


def create_automatically(
    topics: TopicController,
    options: BrokerOptions,
    names: Sequence[str],
    lines: LogLimit,
    now_ms: int,
    permit: Permit = unlimited,
) -> Work[None]:
    """Start creating topics with the broker's defaults; create none of them if there are too many.

    Args:
        topics: creates the topics.
        options: broker options.
        names: names of topics that do not exist; their creation may already have begun.
        lines: where to log failures.
        now_ms: the current time.
        permit: see `Permit`.
    """
    partitions = 0
    for name in names:
        partitions += plan_topic(name, options).partitions
        yield
    if partitions > PARTITIONS_MAX:
        text = "not creating %d topics with %d partitions: the limit for one request is %d"
        lines.warning(create_automatically, now_ms, text, len(names), partitions, PARTITIONS_MAX)
        return
    for name in names:
        try:
            topics.check_name(name)
            topics.create_by_default(name, _ignore, permit)
        except BrokerError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:  # otherwise, its creation has already begun
                subject = create_automatically, error.code
                lines.warning(subject, now_ms, "could not create the topic %s: %s", name, error)
        yield


def _ignore(made: TopicImage | BrokerError) -> None:
    """Ignore the result: either the image now contains the topic, or the log says why it does not."""
