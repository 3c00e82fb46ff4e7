"""`kafkawire broker --check`: read the configuration as a start would, without starting.

The broker is constructed, which checks all options and does no I/O. Then its addresses, its folder and the limits of
the process are looked at. Nothing is written and ZooKeeper is not contacted, so a start can still be refused by the
cluster.
"""

from __future__ import annotations

import ipaddress
import os
import resource
import socket
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kafkawire.commands.broker.data_folder import folder_facts, folder_findings
from kafkawire.commands.broker.findings import Finding, FolderFacts, Kind, ListenerFacts, OptionFacts, Report
from kafkawire.commands.broker.settings import StartSettings
from kafkawire.reference_broker.config.authorizer_options import super_user_names
from kafkawire.reference_broker.config.cluster_options import ClusterOptions, split_options
from kafkawire.reference_broker.config.config_file import ConfigFile
from kafkawire.reference_broker.config.endpoints import Listener
from kafkawire.reference_broker.config.listeners import read_listeners
from kafkawire.reference_broker.config.options import NO_LIMIT, TOPIC_DEFAULTS, BrokerOptions, read_options
from kafkawire.reference_broker.config.security_options import ListenerSecurityOptions
from kafkawire.reference_broker.config.security_settings import PREFIX, SecuritySettings, split_listener_options
from kafkawire.reference_broker.metadata.principal import ANONYMOUS
from kafkawire.reference_broker.network.connection_limits import read_overrides
from kafkawire.reference_broker.network.event_loop import loop_factory
from kafkawire.reference_broker.server import Broker, address_of
from kafkawire.reference_broker.storage.disk.reserves import kept_for_files
from kafkawire.sdk.clock import now_ms
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import Options, written
from kafkawire.sdk.protocol.tables.configs import TOPIC_CONFIGS
from kafkawire.sdk.secret import HIDDEN, may_be_secret
from kafkawire.sdk.transport.wire import Address

__all__ = ["check", "refused"]

#: With fewer descriptors than this, besides one for each partition, the limit on open files is reported: four times the
#: soft limit that most systems set for programs that open few files.
_OPEN_FILES_MIN: Final = 4_096

_RETENTION: Final = ("log_retention_ms", "log_retention_bytes")


def refused(error: Exception, config: ConfigFile | None) -> Report:
    """Return the report for a configuration that cannot be read.

    Args:
        error: the reason.
        config: the properties file, if it could be read.
    """
    subject, text = "configuration", str(error)
    if isinstance(error, ConfigurationError):
        error = error if config is None else config.placed(error)
        subject, text = error.option, _sentence(str(error))
    findings = (Finding(Kind.ERROR, subject, text), *_without_effect(config))
    return Report(None, None, None, (), None, _open_files_max(), (), findings)


def _sentence(text: str) -> str:
    """Return a text with a full stop, unless it ends with a question mark."""
    return text if text.endswith("?") else f"{text}."


def check(settings: StartSettings, config: ConfigFile | None) -> Report:
    """Return the report for a configuration.

    Args:
        settings: the settings of the start.
        config: the properties file; None if there is none.
    """
    try:
        of_broker, of_listeners = split_listener_options(settings.options)
        own, of_cluster = split_options(of_broker)
        read_options(own)  # this comes first, because `port` and `handlers` are arguments of the broker
        listen = settings.listen
        broker = Broker(
            settings.data, listen.host, listen.port, handlers=(), wall_ms=now_ms, registry=None, **settings.options
        )
        loop_factory(broker.options.event_loop)
    except ConfigurationError as error:
        return refused(error, config)
    options = broker.options
    cluster = None if of_cluster is None else ClusterOptions.read(of_cluster.items())
    listeners = read_listeners(options, settings.listen.host, settings.listen.port, socket.gethostname())
    security = SecuritySettings(options, of_listeners, listeners)
    node_id = options.node_id if cluster is None else cluster.configured_broker_id
    folder = None if settings.data is None else folder_facts(settings.data)
    findings = [
        *_addresses(listeners),
        *_limited_addresses(options),
        *_metrics(options),
        *(() if folder is None else folder_findings(folder, node_id, is_alone=cluster is None)),
        *_exposed(listeners, broker),
        *_options(options, is_ephemeral=folder is None),
        *(() if cluster is None else _cluster_options(cluster)),
        *_process(folder),
        *_idle(broker, config),
        *_without_effect(config),
    ]
    kinds = list(Kind)
    return Report(
        "standalone" if cluster is None else "cluster",
        node_id,
        None if cluster is None else cluster.zookeeper_connect,
        tuple(_listener(each, broker, security.of(each.name)) for each in listeners),
        folder,
        _open_files_max(),
        (*_differences(options), *(() if cluster is None else _differences(cluster)), *_of_listeners(options)),
        tuple(sorted(findings, key=lambda finding: kinds.index(finding.kind))),
    )


def _listener(listener: Listener, broker: Broker, security: ListenerSecurityOptions) -> ListenerFacts:
    role = "clients"
    if broker.node is not None:
        between = broker.node.listeners_between_brokers
        role = "clients and brokers" if not between else "brokers" if listener.name in between else "clients"
    advertised = (
        listener.advertised if listener.advertised.port else listener.advertised._replace(port=listener.bind.port)
    )
    logins = security.mechanisms if listener.has_login else ()
    if listener.has_tls and not listener.has_login and security.ssl_client_auth != "none":
        logins = ("client certificates",)
    return ListenerFacts(listener.name, listener.protocol, str(listener.bind), str(advertised), role, logins)


def _differences(options: Options) -> Iterator[OptionFacts]:
    """Yield the options with other values than the defaults."""
    topic_configs: Mapping[str, str] = {name.replace(".", "_"): config for name, config in TOPIC_DEFAULTS.items()}
    for name, option in options.OPTIONS.items():
        value, default = getattr(options, name), option.default
        if default is None and name in topic_configs:
            default = TOPIC_CONFIGS[topic_configs[name]].default
            value = default if value is None else value
        if value != default:
            kafka_name = option.kafka_name
            hides = may_be_secret(kafka_name or name)
            yield OptionFacts(name, kafka_name, HIDDEN if hides else written(value), _default(default))


def _of_listeners(options: BrokerOptions) -> Iterator[OptionFacts]:
    """Yield the options that were given for single listeners."""
    for name, value in options.given.items():
        if name.startswith(PREFIX):
            yield OptionFacts(name, name, HIDDEN if may_be_secret(name) else value, "as for all listeners")


def _default(value: Any) -> str:
    return "" if value is None else written(value)


# Findings.


def _addresses(listeners: list[Listener]) -> Iterator[Finding]:
    """Yield the addresses on which the broker could not listen, and those that clients could not find."""
    for listener in listeners:
        if reason := _reason_against_listening(listener.bind):
            yield Finding(Kind.ERROR, f"listener {listener.name}", reason)
        try:
            socket.getaddrinfo(listener.advertised.host, None)
        except OSError as error:
            text = (
                f"clients are told to connect to {listener.advertised.host}, which this machine cannot resolve: "
                f"{error.strerror or error}."
            )
            yield Finding(Kind.WARNING, f"listener {listener.name}", text)


def _limited_addresses(options: BrokerOptions) -> Iterator[Finding]:
    """Yield why the limits of individual addresses could not be used; a start looks up the names of hosts."""
    try:
        read_overrides(options.max_connections_per_ip_overrides, address_of)
    except ConfigurationError as error:
        yield Finding(Kind.ERROR, error.option, _sentence(error.reason))


def _metrics(options: BrokerOptions) -> Iterator[Finding]:
    if not options.metrics_listen:
        return
    address = Address.parse("metrics_listen", options.metrics_listen, lowest_port=0)
    if reason := _reason_against_listening(address):
        yield Finding(Kind.ERROR, "metrics_listen", reason)
    if not _is_loopback(address.host):
        text = f"everyone who can reach {address} can read the metrics, which contain the names of topics."
        yield Finding(Kind.UNSAFE, "metrics_listen", text)


def _reason_against_listening(address: Address) -> str | None:
    """Return why the broker could not listen on an address; None if it could."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            return f"the broker cannot listen on {address}: {error.strerror or error}."
    return None


def _exposed(listeners: list[Listener], broker: Broker) -> Iterator[Finding]:
    """Yield what others on the network can do, or see, and should not."""
    has_authorizer = bool(broker.options.authorizer_class_name)
    for listener in listeners:
        if _is_loopback(listener.bind.host):
            continue
        subject = f"listener {listener.name}"
        if not (listener.has_login or (listener.has_tls and broker.requires_certificates(listener.name))):
            lack = "no login" if listener.has_tls else "no encryption and no login"
            if listener.has_tls:
                lack += ", and no certificate is required"
            is_limited = has_authorizer and str(ANONYMOUS) not in super_user_names(broker.options.super_users)
            may = f"do what the ACLs allow {ANONYMOUS}" if is_limited else "read, write and delete everything"
            reason = f"because the protocol {listener.protocol} has {lack}"
            yield Finding(Kind.UNSAFE, subject, f"everyone who can reach {listener.bind} can {may}, {reason}.")
            continue
        if not listener.has_tls:
            text = f"everyone on the way can read what clients send to {listener.bind}, passwords of PLAIN included."
            yield Finding(Kind.UNSAFE, subject, text)
        if not has_authorizer:
            text = "every client that has logged in can read, write and delete everything: there is no authorizer."
            yield Finding(Kind.UNSAFE, subject, text)
    if has_authorizer and broker.options.allow_everyone_if_no_acl_found:
        text = "everyone may do anything with a topic, group or transactional id that has no ACL, and with the cluster."
        yield Finding(Kind.UNSAFE, "allow.everyone.if.no.acl.found", text)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _options(options: BrokerOptions, *, is_ephemeral: bool) -> Iterator[Finding]:
    if is_ephemeral:
        text = f"all records are kept in memory, at most {options.memory_disk_bytes} bytes, and lost when it stops."
        yield Finding(Kind.UNSAFE, "--ephemeral", text)
    if options.queued_max_request_bytes == NO_LIMIT:
        text = "clients can use up all memory with large requests and unread responses."
        yield Finding(Kind.UNSAFE, "queued.max.request.bytes", text)
    if not options.log_cleaner_enable:
        text = "compacted topics, such as __consumer_offsets, are never compacted and grow without limit."
        yield Finding(Kind.WARNING, "log.cleaner.enable", text)
    retention_ms, retention_bytes = (getattr(options, name) for name in _RETENTION)
    if retention_ms == str(NO_LIMIT) and retention_bytes in (None, str(NO_LIMIT)):
        yield Finding(Kind.WARNING, "log.retention.ms", "records are kept forever, until the disk is full.")


def _cluster_options(options: ClusterOptions) -> Iterator[Finding]:
    if options.unclean_leader_election_enable:
        text = "records that were acknowledged can be lost when a replica that lacks them becomes leader."
        yield Finding(Kind.UNSAFE, "unclean.leader.election.enable", text)
    if options.default_replication_factor == 1:
        text = "topics created without a replication factor have one replica, so their records are lost with its disk."
        yield Finding(Kind.UNSAFE, "default.replication.factor", text)
    if not options.zookeeper_set_acl:
        text = "everyone who can reach ZooKeeper can change what this broker stores there."
        yield Finding(Kind.UNSAFE, "zookeeper.set.acl", text)


def _process(folder: FolderFacts | None) -> Iterator[Finding]:
    if os.geteuid() == 0:
        yield Finding(Kind.UNSAFE, "user", "the broker would run as root, but it needs no privileges.")
    limit, partitions = _open_files_max(), 0 if folder is None else folder.partitions
    needed = _OPEN_FILES_MIN + partitions
    if limit < needed:
        text = (
            f"the process may have only {limit} files and connections open, {kept_for_files(limit)} of them reserved "
            f"for files; with {partitions} partitions, at least {needed} are recommended."
        )
        yield Finding(Kind.WARNING, "open files", text)


def _open_files_max() -> int:
    """Return the limit that the broker sets for itself at startup: the hard limit."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def _idle(broker: Broker, config: ConfigFile | None) -> Iterator[Finding]:
    """Yield the options that no listener uses, or that need an authorizer."""
    for name, reason in broker.idle_options():
        place = f"{config.path}:{config.lines[name]}: " if config is not None and name in config.options else ""
        yield Finding(Kind.WITHOUT_EFFECT, f"{place}{name}", f"{reason}.")


def _without_effect(config: ConfigFile | None) -> Iterator[Finding]:
    if config is not None:
        for name in sorted(config.without_effect, key=lambda name: config.lines[name]):
            reason = config.without_effect[name].removeprefix("without effect: ")
            yield Finding(Kind.WITHOUT_EFFECT, f"{config.path}:{config.lines[name]}: {name}", _sentence(reason))
