"""The options for a query's clients, each under a single name, without those that a query may not set.

A query may use the names in Kafka's documentation or in docs/options.md, which are equivalent; values are text.

Source: `KafkaSourceProvider.validateGeneralOptions` in Apache Spark, which refuses these options and others;
`SecurityProtocol.forName` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import Options
from kafkawire.sdk.spark.logins import with_login
from kafkawire.sdk.spark.option_values import CLIENT_PREFIX, client_reason

__all__ = ["REFUSED_OF_READERS", "REFUSED_OF_WRITERS", "read_client_options"]

_COLUMNS = "keys and values are columns: convert them with Spark functions"
_FUNCTION = "a function cannot be given as text: leave it out"
_CLASS = "Java classes cannot be used: leave it out"
_SYSTEM = "the operating system sizes socket buffers: leave it out"
_TLS = "Python's TLS chooses this itself: leave it out, or set it for OpenSSL on the workers"
_MANAGED = "Spark decides where reading begins, and keeps its progress in the checkpoint: use startingOffsets"
_NO_GROUP = "no task joins a group: leave it out"

_REFUSED: Final = {
    "key_serializer": _COLUMNS,
    "value_serializer": _COLUMNS,
    "key_deserializer": _COLUMNS,
    "value_deserializer": _COLUMNS,
    "interceptor_classes": "an interceptor could change records: leave it out",
    "io": "a task has no event loop: leave it out",
    "metric_reporters": _CLASS,
    "metrics_reporter": _FUNCTION,
    "receive_buffer_bytes": _SYSTEM,
    "send_buffer_bytes": _SYSTEM,
    "client_dns_lookup": "all addresses of a name are tried, as with use_all_dns_ips: leave it out",
    "security_providers": _CLASS,
    "ssl_cipher_suites": _TLS,
    "ssl_enabled_protocols": _TLS,
    "ssl_engine_factory_class": _CLASS,
    "ssl_keymanager_algorithm": _CLASS,
    "ssl_protocol": _TLS,
    "ssl_provider": _CLASS,
    "ssl_secure_random_implementation": _CLASS,
    "ssl_trustmanager_algorithm": _CLASS,
    "sasl_client_callback_handler_class": _CLASS,
    "sasl_login_callback_handler_class": _CLASS,
    "sasl_login_class": _CLASS,
}

#: Options that would conflict with a data source, and what to use instead.
REFUSED_OF_READERS: Final[Mapping[str, str]] = {
    **_REFUSED,
    "auto_offset_reset": _MANAGED,
    "enable_auto_commit": _MANAGED,
    "auto_commit_interval_ms": _MANAGED,
    "enable_auto_finish": _MANAGED,
    "group_protocol": _NO_GROUP,
    "group_remote_assignor": _NO_GROUP,
}

#: Options that would conflict with the sink, and what to use instead.
REFUSED_OF_WRITERS: Final[Mapping[str, str]] = {
    **_REFUSED,
    "transactional_id": "each task has its own: use transactionalIdPrefix",
    "max_block_ms": (
        "rows wait for room in kafka.buffer.memory for as long as a delivery may take: use kafka.delivery.timeout.ms"
    ),
}

#: Options whose values are case-insensitive in the Java clients; the values of all others are case-sensitive.
_ANY_CASE: Final[Mapping[str, Callable[[str], str]]] = {
    "security_protocol": str.upper,
    "ssl_endpoint_identification_algorithm": str.lower,
}


def read_client_options(given: Mapping[str, str], options: type[Options], refused: Mapping[str, str]) -> dict[str, Any]:
    """Return the client options, keyed by their names in docs/options.md; the client itself checks the values.

    Args:
        given: text, keyed by lower-case names without the prefix, in either spelling.
        options: the class of the client's options.
        refused: the reasons for refusing options, keyed by name in snake case.

    Raises:
        ConfigurationError: a name is refused, unknown or given twice, a login is invalid, or no servers are given.
    """
    values: dict[str, Any] = {}
    for given_name, text in with_login(given).items():
        shown = f"{CLIENT_PREFIX}{given_name}"
        if (reason := refused.get(given_name.replace(".", "_"))) is not None:
            raise ConfigurationError(shown, text, reason)
        name = options.own_name(given_name) or given_name
        option = options.OPTIONS.get(name)
        if option is None:
            raise ConfigurationError(shown, text, client_reason(options.unknown(given_name), options))
        if name in values:
            raise ConfigurationError(shown, text, f"{name} is also given")
        values[name] = _ANY_CASE.get(name, str)(text) if option.parse is None else option.parse(text.strip())
    if "bootstrap_servers" not in values:
        raise ConfigurationError(f"{CLIENT_PREFIX}bootstrap.servers", None, "required, in the form host:port,host:port")
    return values
