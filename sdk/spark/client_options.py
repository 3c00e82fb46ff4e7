"""The options of a query's clients: by one name each, and without those that a query cannot choose.

A query names them as Kafka's documentation does, or as docs/options.md does; both mean the same, and values are text.

Source: `KafkaSourceProvider.validateGeneralOptions` in Apache Spark, which refuses the same and some more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import Options
from kafkawire.sdk.spark.logins import with_login
from kafkawire.sdk.spark.option_values import CLIENT_PREFIX

__all__ = ["REFUSED_OF_READERS", "REFUSED_OF_WRITERS", "read_client_options"]

_COLUMNS = "keys and values are columns: convert them with functions of Spark"
_FUNCTION = "a function cannot be given as text: leave it out"
_MANAGED = "Spark decides where reading begins, and keeps in the checkpoint how far it came: use startingOffsets"
_NO_GROUP = "no task joins a group: leave it out"

_REFUSED: Final = {
    "key_serializer": _COLUMNS,
    "value_serializer": _COLUMNS,
    "key_deserializer": _COLUMNS,
    "value_deserializer": _COLUMNS,
    "interceptor_classes": "an interceptor could change records: leave it out",
    "io": "a task has no event loop: leave it out",
    "metric_reporters": _FUNCTION,
    "metrics_reporter": _FUNCTION,
}

#: What would contradict a source, and what to do instead.
REFUSED_OF_READERS: Final[Mapping[str, str]] = {
    **_REFUSED,
    "auto_offset_reset": _MANAGED,
    "enable_auto_commit": _MANAGED,
    "auto_commit_interval_ms": _MANAGED,
    "enable_auto_finish": _MANAGED,
    "group_protocol": _NO_GROUP,
    "group_remote_assignor": _NO_GROUP,
}

#: What would contradict the sink, and what to do instead.
REFUSED_OF_WRITERS: Final[Mapping[str, str]] = {
    **_REFUSED,
    "transactional_id": "each task has one of its own: use transactionalIdPrefix",
}


def read_client_options(given: Mapping[str, str], options: type[Options], refused: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of a client by the names of docs/options.md; the client itself checks the values.

    Args:
        given: text by lower-case names without the prefix, in either spelling.
        options: the options of the client.
        refused: why an option is, by its name in snake case.

    Raises:
        ConfigurationError: a name is refused, unknown or given twice, a login cannot be used, or there are no servers.
    """
    values: dict[str, Any] = {}
    for given_name, text in with_login(given).items():
        shown = f"{CLIENT_PREFIX}{given_name}"
        if (reason := refused.get(given_name.replace(".", "_"))) is not None:
            raise ConfigurationError(shown, text, reason)
        name = options.KAFKA_NAMES.get(given_name, given_name)
        option = options.OPTIONS.get(name)
        if option is None:
            raise ConfigurationError(shown, text, options.unknown(given_name))
        if name in values:
            raise ConfigurationError(shown, text, f"{name} was given already")
        values[name] = text if option.parse is None else option.parse(text)
    if "bootstrap_servers" not in values:
        raise ConfigurationError(f"{CLIENT_PREFIX}bootstrap.servers", None, "it is needed: host:port,host:port")
    return values
