"""Users of another client library learn what an option is called in this one, or what to do instead.

Method: check a table of names and hints, compare the tables of names with our own options and the roadmap, and check
that every option of the installed kafka-python has a hint; kafka-python runs in a separate process because it uses
deprecated functions.
"""

from __future__ import annotations

import copy
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kafkawire import Admin, Consumer, Producer
from kafkawire.sdk.client.option_hints import MISSING, ON_THE_ROADMAP, SYNONYMS, hint, synonyms
from kafkawire.sdk.client.options import CLIENTS, ConsumerOptions, ProducerOptions, read_options
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import Options

ROOT = Path(__file__).parents[3]

LIST_OPTIONS = """
import json, kafka
clients = {"Producer": kafka.KafkaProducer, "Consumer": kafka.KafkaConsumer, "Admin": kafka.KafkaAdminClient}
print(json.dumps({name: list(client.DEFAULT_CONFIG) for name, client in clients.items()}))
"""


@pytest.mark.parametrize(
    ("client", "name", "text"),
    [
        ("Producer", "compression_type", "no such option; here it is compression"),
        ("Producer", "compression.codec", "no such option; here it is compression"),
        ("Producer", "max_batch_size", "no such option; here it is batch_size"),
        ("Producer", "queue.buffering.max.ms", "no such option; here it is linger_ms"),
        ("Producer", "max_in_flight_requests_per_connection", "no such option; here it is max_in_flight"),
        ("Producer", "Linger-Ms", "no such option; here it is linger_ms"),
        ("Producer", "servers", "no such option; here it is bootstrap_servers"),
        ("Producer", "group_id", "no such option here; group_id is an option of Consumer"),
        ("Producer", "fetch.wait.max.ms", "no such option here; fetch_max_wait_ms is an option of Consumer"),
        ("Consumer", "acks", "no such option here; acks is an option of Producer"),
        ("Admin", "compression_type", "no such option here; compression is an option of Producer"),
        ("Consumer", "partition_assignment_strategy", "no such option; here it is assignors"),
        ("Consumer", "transactional_id", "no such option here; transactional_id is an option of Producer"),
        (
            "Producer",
            "transaction_two_phase_commit_enable",
            "no such option yet; on the roadmap: two-phase commit",
        ),
        (
            "Consumer",
            "share.acknowledgement.mode",
            "no such option here; share_acknowledgement_mode is an option of ShareConsumer",
        ),
        ("ShareConsumer", "auto.offset.reset", "no such option here; auto_offset_reset is an option of Consumer"),
        ("Admin", "sasl.plain.username", "no such option; here it is sasl_username"),
        ("Producer", "ssl.cafile", "no such option; here it is ssl_truststore_location"),
        ("Consumer", "sasl_mechanisms", "no such option; here it is sasl_mechanism"),
        ("Consumer", "message.timeout.ms", "no such option here; delivery_timeout_ms is an option of Producer"),
        ("Producer", "ssl_ciphers", "no such option; set it on an ssl.SSLContext, and pass that as ssl_context"),
        ("Producer", "sasl.login.class", "no such option; pass a function as sasl_oauthbearer_token"),
        (
            "Producer",
            "key.serializer",
            "no such option; pass functions to Producer: key_serializer=, value_serializer=",
        ),
        ("Consumer", "interceptor.classes", "no such option; pass interceptors to Producer or Consumer"),
        (
            "Consumer",
            "topics",
            "no such option; pass topics after the servers: Consumer(servers, 'orders', 'payments')",
        ),
        ("Producer", "dr_cb", "no such option; await the Delivery that send returns, or pass on_delivery to send"),
        ("Producer", "opaque", "no such option; kafkawire has no equivalent"),
        ("Producer", "lingr_ms", None),
        ("Producer", "sslx", None),
    ],
)
def test_hints(client: str, name: str, text: str | None) -> None:
    assert hint(name, CLIENTS[client], CLIENTS) == text


def test_errors_show_hints_and_no_secrets() -> None:
    with pytest.raises(ConfigurationError, match=r"^compression_type='gzip': no such option; here it is compression$"):
        read_options(ProducerOptions, "a", {"compression_type": "gzip"})
    for name in ("sasl.plain.password", "ssl.key.pem", "ssl.ca.pem", "sasl.jaas.config", "ssl.keystore.password"):
        with pytest.raises(ConfigurationError) as caught:
            read_options(ConsumerOptions, "a", {name: "hush"})
        assert "hush" not in str(caught.value)
        assert str(caught.value).startswith(f"{name}=<hidden>: no such option; ")


def test_an_error_lists_all_unknown_options() -> None:
    given = {
        "session.timeout.ms": "x",
        "stats_cb": print,
        "linger.ms": 5,
        "ssl.keystore.password": "hush",
        "nonsense": 1,
    }
    with pytest.raises(ConfigurationError) as caught:
        read_options(ConsumerOptions, "a", given)
    stats, linger, password, other = str(caught.value).split("\n")
    assert (caught.value.option, stats.partition("=")[0]) == ("stats_cb", "stats_cb")
    assert linger == "linger.ms=5: no such option here; linger_ms is an option of Producer"
    assert password.startswith("ssl.keystore.password=<hidden>: no such option; certificates and keys are PEM")
    assert other.startswith("nonsense=1: no such option")
    for copied in (copy.copy(caught.value), caught.value.again()):
        assert str(copied) == str(caught.value)


def test_names_of_other_clients_that_mean_the_same_are_accepted() -> None:
    confluent = {
        "bootstrap.servers": "a",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "ca.pem",
        "ssl.certificate.location": "me.pem",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "me",
        "sasl.password": "hush",
        "message.timeout.ms": "70000",
    }
    kafka_python = {
        "bootstrap_servers": "a",
        "security_protocol": "SASL_SSL",
        "ssl_cafile": "ca.pem",
        "ssl_certfile": "me.pem",
        "ssl_keyfile": None,
        "ssl_password": None,
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "me",
        "sasl_plain_password": "hush",
        "delivery_timeout_ms": 70_000,
    }
    first, second = (read_options(ProducerOptions, None, given) for given in (confluent, kafka_python))
    assert vars(first) == vars(second)
    assert (first.ssl_truststore_location, first.ssl_keystore_location) == ("ca.pem", "me.pem")
    assert (first.sasl_mechanism, first.sasl_username, first.delivery_timeout_ms) == ("PLAIN", "me", 70_000)
    with pytest.raises(ConfigurationError, match="ssl_truststore_location was already given"):
        read_options(ProducerOptions, "a", {"ssl_cafile": "a", "ssl_truststore_location": "b"})


def test_every_option_of_kafka_python_has_an_answer() -> None:
    listed = subprocess.run([sys.executable, "-c", LIST_OPTIONS], capture_output=True, text=True, check=True).stdout
    for client, names in json.loads(listed).items():
        kind = CLIENTS[client]
        others = set(names) - kind.OPTIONS.keys() - kind.ALIASES.keys()
        assert len(others) > 20
        assert [name for name in others if hint(name, kind, CLIENTS) is None] == []


def test_tables_hold_no_option_of_our_own_and_no_name_twice() -> None:
    """A name must be removed from the tables as soon as an option has that name."""
    own = {name for kind in CLIENTS.values() for name in all_names(kind)}
    named = [
        name for names in (*SYNONYMS.values(), *ON_THE_ROADMAP.values(), *MISSING.values()) for name in names.split()
    ]
    assert own.isdisjoint(named)
    assert [name for name in own for prefix in named if prefix.endswith(".") and name.startswith(prefix)] == []
    assert len(named) == len(set(named))
    assert all(name == name.lower() and "_" not in name for name in named)


def test_hints_name_what_a_constructor_takes() -> None:
    """If a constructor has a parameter named like another library's option, the advice must mention that parameter."""
    parameters = {
        name.replace("_", "."): name
        for client in (Producer, Consumer, Admin)
        for name in inspect.signature(client).parameters
    }
    denied = [
        (advice, parameters[name]) for advice, names in MISSING.items() for name in names.split() if name in parameters
    ]
    assert [name for advice, name in denied if name not in advice] == []


def all_names(kind: type[Options]) -> set[str]:
    return {name.replace("_", ".") for name in (*kind.OPTIONS, *kind.KAFKA_NAMES)}


def test_synonyms_name_options_that_exist() -> None:
    assert SYNONYMS.keys() <= {name for kind in CLIENTS.values() for name in kind.OPTIONS}
    assert ("compression.codec", "compression") in synonyms(ProducerOptions)
    assert ("compression.codec", "compression") not in synonyms(ConsumerOptions)


def test_the_roadmap_says_so_too() -> None:
    roadmap = (ROOT / "docs" / "roadmap.md").read_text("utf-8")
    assert [feature for feature in ON_THE_ROADMAP if feature not in roadmap] == []
