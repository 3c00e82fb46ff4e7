"""Map the options of other Kafka clients to their counterparts here, or to advice if there are none.

The mappings are used for errors about unknown options, and for docs/options.md. Names are compared after replacing
underscores with dots, so `compression_type` and `compression.type` are the same name, and a name that differs from
Kafka's only in this way needs no entry.

Source: the options of Apache Kafka 4.3 (Java), librdkafka 2.16 with confluent-kafka, kafka-python 3.0, aiokafka 0.14.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kafkawire.sdk.options import Options

__all__ = ["MISSING", "ON_THE_ROADMAP", "SYNONYMS", "hint", "synonyms"]

#: Each option, mapped to its names in other clients, separated by spaces. Accepted names are in `Options.ALIASES`.
SYNONYMS: Final[Mapping[str, str]] = {
    "batch_size": "max.batch.size",
    "bootstrap_servers": "brokers metadata.broker.list servers",
    "compression": "compression.codec",
    "enable_auto_commit": "auto.commit.enable",
    "fetch_max_wait_ms": "fetch.wait.max.ms",
    "linger_ms": "queue.buffering.max.ms",
    "max_frame_bytes": "receive.message.max.bytes",
    "max_partition_fetch_bytes": "fetch.message.max.bytes",
    "max_poll_interval_ms": "rebalance.timeout.ms",
    "max_request_size": "message.max.bytes",
    "metadata_max_age_ms": "topic.metadata.refresh.interval.ms",
    "acks": "request.required.acks",
    "request_timeout_ms": "socket.timeout.ms",
    "retries": "message.send.max.retries",
    "sasl_kerberos_service_name": "sasl.kerberos.name",
    "sasl_oauthbearer_client_credentials_client_id": "sasl.oauthbearer.client.id",
    "sasl_oauthbearer_client_credentials_client_secret": "sasl.oauthbearer.client.secret",
    "sasl_oauthbearer_token": "oauth.cb oauthbearer.token.refresh.cb sasl.oauth.token.provider",
    "ssl_endpoint_identification_algorithm": "ssl.check.hostname",
    "ssl_keystore_certificate_chain": "ssl.certificate.pem",
    "ssl_keystore_key": "ssl.key.pem",
    "ssl_truststore_certificates": "ssl.ca.pem",
}

#: Each feature in docs/roadmap.md, mapped to the options planned with it. In this mapping and the next one, a name that
#: ends with a dot stands for all names that begin with it.
ON_THE_ROADMAP: Final[Mapping[str, str]] = {
    "two-phase commit": "transaction.two.phase.commit.enable",
}

#: Advice for options without a counterpart: maps each piece of advice to the options that it is for.
MISSING: Final[Mapping[str, str]] = {
    "pass topics after the servers: Consumer(servers, 'orders', 'payments')": "topic topics",
    "pass functions to Producer: key_serializer=, value_serializer=": "key.serializer value.serializer",
    "pass functions to Consumer: key_deserializer=, value_deserializer=": "key.deserializer value.deserializer",
    "versions are negotiated with each broker": (
        "api.version api.version.request api.version.request.timeout.ms api.version.fallback.ms "
        "api.version.auto.timeout.ms broker.version.fallback"
    ),
    "the client runs on the event loop that awaits start": "loop",
    "await the Delivery that send returns, or pass on_delivery to send": (
        "dr.cb dr.msg.cb on.delivery delivery.report.only.error produce.offset.report"
    ),
    "send never waits: await drain after BufferFull, or use send_many; "
    "topic_timeout_ms limits how long records wait for a topic": ("max.block.ms"),
    "the buffer is counted in bytes: use buffer_memory": "queue.buffering.max.messages queue.buffering.max.kbytes",
    "batches are counted in bytes: use batch_size": "batch.num.messages",
    "records without a key fill one batch after another; a record with a key goes to the partition of its key": (
        "partitioner.ignore.keys partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms "
        "sticky.partitioning.linger.ms"
    ),
    "use partitioner": "partitioner.cb",
    "use compression_gzip_level, compression_lz4_level or compression_zstd_level": "compression.level",
    "pass listener to Consumer": "rebalance.cb on.assign on.revoke on.lost",
    "await commit, which raises the error": "offset.commit.cb on.commit default.offset.commit.callback",
    "set enable_auto_finish=False, and call finish with the records that are done": "enable.auto.offset.store",
    "read with records(stop_at_end=True)": "enable.partition.eof",
    "use getmany(timeout_ms=…), or asyncio.timeout around a read": "consumer.timeout.ms",
    "fetch_max_bytes also limits how much is fetched ahead": (
        "queued.max.messages.kbytes queued.min.messages fetch.queue.backoff.ms"
    ),
    "read internal topics by name, like any other topic": "exclude.internal.topics",
    "use subscribe(excluded_pattern=…)": "topic.blacklist",
    "a producer creates missing topics if the brokers allow it; a consumer never does": "allow.auto.create.topics",
    "a consumer always reads in fetch sessions": "enable.incremental.fetch.sessions",
    "retry_backoff_ms and retry_backoff_max_ms set all pauses between attempts": (
        "reconnect.backoff.ms reconnect.backoff.max.ms reconnect.backoff.jitter.ms fetch.error.backoff.ms "
        "topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.fast.cnt"
    ),
    "connect_timeout_ms limits each attempt; start raises when no server can be reached": (
        "bootstrap.timeout.ms socket.connection.setup.timeout.max.ms"
    ),
    "pass network to the client to reach brokers in another way": (
        "client.dns.lookup broker.address.family broker.address.ttl selector kafka.client proxy.url socks5.proxy "
        "socket.options socket.cb connect.cb closesocket.cb resolve.cb socket.nagle.disable "
        "receive.buffer.bytes send.buffer.bytes socket.send.buffer.bytes socket.receive.buffer.bytes"
    ),
    "the client logs to kafkawire's loggers": "debug log.cb log.level log.queue logger log.connection.close",
    "errors are logged, and raised by the calls that they affect": "error.cb",
    "read metrics() of the client, or pass a function as metrics_reporter": (
        "metric.reporters statistics.interval.ms stats.cb throttle.cb"
    ),
    "metrics are always recorded, in two windows of 30 s": (
        "metrics.enabled metrics.num.samples metrics.recording.level metrics.sample.window.ms metric.group.prefix"
    ),
    "pass interceptors to Producer or Consumer": "interceptor.classes interceptors plugin.library.paths",
    "an admin needs bootstrap_servers": "bootstrap.controllers",
    'choose security_protocol "SSL" or "SASL_SSL"': "ssl",
    "set it on an ssl.SSLContext, and pass that as ssl_context": (
        "enable.ssl.certificate.verification security.providers ssl.ca ssl.ca.certificate.stores ssl.certificate "
        "ssl.certificate.verify.cb ssl.cipher.suites ssl.ciphers ssl.crl.location ssl.crlfile ssl.curves.list "
        "ssl.enabled.protocols ssl.engine. ssl.key ssl.keymanager.algorithm ssl.protocol ssl.provider ssl.providers "
        "ssl.secure.random.implementation ssl.sigalgs.list ssl.trustmanager.algorithm"
    ),
    "certificates and keys are PEM; only a private key has a password: use ssl_key_password": (
        "ssl.keystore.password ssl.truststore.password"
    ),
    "use sasl_username and sasl_password": "sasl.jaas.config",
    "pass a function as sasl_oauthbearer_token": (
        "enable.sasl.oauthbearer.unsecure.jwt sasl.client.callback.handler.class sasl.login. "
        "sasl.oauthbearer.assertion. sasl.oauthbearer.clock. sasl.oauthbearer.config sasl.oauthbearer.expected. "
        "sasl.oauthbearer.grant.type sasl.oauthbearer.iat. sasl.oauthbearer.jti. sasl.oauthbearer.jwks. "
        "sasl.oauthbearer.jwt. sasl.oauthbearer.metadata. sasl.oauthbearer.method sasl.oauthbearer.scope.claim.name "
        "sasl.oauthbearer.sub. https.ca.location https.ca.pem"
    ),
    "log in to Kerberos beforehand, with kinit or a keytab": (
        "sasl.kerberos.domain.name sasl.kerberos.keytab sasl.kerberos.kinit. sasl.kerberos.min. "
        "sasl.kerberos.principal sasl.kerberos.ticket."
    ),
    "kafkawire has no equivalent": (
        "background.event.cb builtin.features config.providers consume.callback.max.messages consume.cb "
        "coordinator.query.interval.ms default.topic.conf enable.random.seed enabled.events group.protocol.type "
        "enable.gapless.guarantee internal. log.thread.name message.copy.max.bytes metadata.recovery. msg.order.cmp "
        "offset.store. opaque open.cb queue.buffering.backpressure.threshold queuing.strategy socket.blocking.max.ms "
        "socket.max.fails topic.metadata.propagation.max.ms topic.metadata.refresh.sparse"
    ),
}


def hint(name: str, kind: type[Options], clients: Mapping[str, type[Options]]) -> str | None:
    """Return the hint for a name that is not an option of a client.

    Args:
        name: the name as the user wrote it.
        kind: the options of the client that received it.
        clients: the options of each client, keyed by the client's class name.

    Returns:
        None if the name is unknown.
    """
    dotted = name.replace("_", ".").replace("-", ".").lower()
    for owner, options in {kind.__name__: kind, **clients}.items():
        own = _own_name(dotted, options)
        if own is None:
            continue
        if options is kind:
            return f"no such option; here it is {own}"
        return f"no such option here; {own} is an option of {owner}"
    for feature, names in ON_THE_ROADMAP.items():
        if _is_among(dotted, names):
            return f"no such option yet; on the roadmap: {feature}"
    for advice, names in MISSING.items():
        if _is_among(dotted, names):
            return f"no such option; {advice}"
    return None


def synonyms(kind: type[Options]) -> Iterator[tuple[str, str]]:
    """Map each dotted name of another client to the option of `kind` that it stands for."""
    yield from ((name.replace("_", "."), own) for name, own in kind.ALIASES.items())
    yield from ((name, own) for own, names in SYNONYMS.items() if own in kind.OPTIONS for name in names.split())


def _own_name(dotted: str, options: type[Options]) -> str | None:
    if dotted in options.KAFKA_NAMES:
        return options.KAFKA_NAMES[dotted]
    by_dotted = {own.replace("_", "."): own for own in options.OPTIONS} | dict(synonyms(options))
    return by_dotted.get(dotted)


def _is_among(dotted: str, names: str) -> bool:
    return any(dotted == name or (name.endswith(".") and dotted.startswith(name)) for name in names.split())
