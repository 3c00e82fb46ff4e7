"""Check the topics that an application asks for: names, a pattern, or a pattern for topics to exclude."""

from __future__ import annotations

from typing import Any

from kafkawire.sdk.client.arguments import checked_text, given_several, is_text
from kafkawire.sdk.client.options import ConsumerOptions
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.routing.topics import checked_topics

__all__ = ["choose_topics"]


def choose_topics(
    options: ConsumerOptions, topics: tuple[Any, ...], pattern: str | None, excluded_pattern: str | None
) -> Subscription:
    """Return the subscription for the arguments of `Consumer.subscribe`.

    Args:
        options: the consumer's options.
        topics: the names, as separate arguments or in one list.
        pattern: see `Consumer.subscribe`.
        excluded_pattern: see `Consumer.subscribe`.

    Raises:
        LocalProtocolError: a topic name is invalid.
        ConfigurationError: none or several of names and the two patterns are given, a pattern is invalid, or the
            group's protocol does not support it.
    """
    for name, given in (("pattern", pattern), ("excluded_pattern", excluded_pattern)):
        if given is not None:
            checked_text(name, given)
    names = checked_topics(given_several(topics, is_text))
    if pattern is not None and excluded_pattern is not None:
        raise ConfigurationError("excluded_pattern", excluded_pattern, f"cannot be combined with pattern={pattern!r}")
    if excluded_pattern is None:
        subscription = Subscription(names, pattern)
    else:
        subscription = Subscription(names, excluded_pattern, excludes=True)
    _check(subscription, None if options.group_id is None else options.group_protocol)
    return subscription


def _check(subscription: Subscription, group_protocol: str | None) -> None:
    """Reject a pattern that cannot be used with the group's protocol, which is None without a group."""
    if subscription.excludes and group_protocol in ("consumer", "auto"):
        reason = f'has no effect with group_protocol="{group_protocol}": brokers cannot exclude topic names'
        raise ConfigurationError("excluded_pattern", subscription.pattern, reason)
    if group_protocol == "zookeeper":
        from kafkawire.sdk.groups.topic_filter import filter_of  # only groups in ZooKeeper need it

        filter_of(subscription)
    elif group_protocol != "consumer":
        subscription.check()
