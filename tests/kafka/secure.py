"""A real Apache Kafka with TLS, SASL and an authorizer, and the reference broker with the same settings.

SASL_PLAINTEXT and SASL_SSL offer PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER (unsigned tokens), and GSSAPI if
there is a realm of Kerberos; they may limit sessions. SSL requires a client certificate, whose common name is the
principal. PLAINTEXT is for setup: every client that uses it is a superuser.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from kafkawire import ScramMechanism, UserScramCredentialUpsertion, sync
from kafkawire.sdk.clock import now_ms
from kafkawire.testing import Broker
from tests.certificates import Certificates
from tests.kafka.apache import ApacheKafka
from tests.ports import free_port
from tests.reference_broker.security.sasl.kerberos_realm import REALM

__all__ = ["PASSWORDS", "SESSION_MS", "SecureBroker", "SecureKafka", "unsecured_token"]

#: The passwords of the users; `admin` may do everything.
PASSWORDS = {"admin": "admin-secret", "alice": "alice-secret"}

#: The length of a SASL session. Kafka refuses more than one login per second.
SESSION_MS = 2_000

_KAFKAS = "org.apache.kafka.common.security"

_LOGIN_MODULES = {
    "plain": (
        f"{_KAFKAS}.plain.PlainLoginModule required "
        + " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    ),
    "scram-sha-256": f"{_KAFKAS}.scram.ScramLoginModule required",
    "scram-sha-512": f"{_KAFKAS}.scram.ScramLoginModule required",
    "oauthbearer": f'{_KAFKAS}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker"',
}

_KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"

_PROTOCOLS = ("SASL_PLAINTEXT", "SSL", "SASL_SSL")

#: The settings that only a node of Apache Kafka needs.
_OF_NODES = {
    "listener.security.protocol.map": ",".join(
        (*(f"{name}:{name}" for name in ("PLAINTEXT", *_PROTOCOLS)), "CONTROLLER:PLAINTEXT")
    )
}


class SecureKafka(ApacheKafka):
    """One secured node, running inside a `with` block.

    Args:
        certificates: the certificates of the node and its clients.
        session_ms: the length of a SASL session; 0 for no limit.
        keytab: the keys of the service kafka/localhost, to offer GSSAPI; None not to offer it.
        settings: further settings.

    Attributes:
        addresses: its listeners' addresses, keyed by security protocol; the host is localhost, as in the node's
            certificate.
    """

    def __init__(
        self,
        certificates: Certificates,
        session_ms: int = SESSION_MS,
        keytab: Path | None = None,
        settings: dict[str, str] | None = None,
    ) -> None:
        self.addresses = {protocol: f"localhost:{free_port()}" for protocol in _PROTOCOLS}
        given = _settings(certificates, session_ms, keytab) | _OF_NODES | (settings or {})
        # Properties files have escapes.
        escaped = {name: value.replace("\\", "\\\\") for name, value in given.items()}
        super().__init__(settings=escaped, listeners=self.addresses, users=PASSWORDS)


class SecureBroker(Broker):
    """The reference broker with the same settings, running inside a `with` block; see `SecureKafka`."""

    def __init__(
        self,
        certificates: Certificates,
        session_ms: int = SESSION_MS,
        keytab: Path | None = None,
        settings: dict[str, str] | None = None,
    ) -> None:
        given: dict[str, Any] = {
            "listeners": ",".join(f"{protocol}://localhost:0" for protocol in ("PLAINTEXT", *_PROTOCOLS)),
            "node_id": 1,
            "transaction_state_log_num_partitions": 4,
            "share_coordinator_state_topic_num_partitions": 1,
            **_settings(certificates, session_ms, keytab),
            **(settings or {}),
        }
        super().__init__(ephemeral=True, **given)

    def start(self) -> None:
        """Start, and add the users."""
        super().start()
        with sync.Admin(self.bootstrap) as admin:
            for name, password in PASSWORDS.items():
                for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
                    credential = UserScramCredentialUpsertion(name, mechanism, password)
                    admin.alter_user_scram_credentials(credential).all()


def _settings(certificates: Certificates, session_ms: int, keytab: Path | None) -> dict[str, str]:
    modules = dict(_LOGIN_MODULES)
    if keytab is not None:
        modules["gssapi"] = f'{_KERBEROS} keyTab="{keytab}" principal="kafka/localhost@{REALM}"'
    settings = {
        "sasl.enabled.mechanisms": ",".join(modules).upper(),
        "connections.max.reauth.ms": str(session_ms),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": r"RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
        "delegation.token.secret.key": "the key of all nodes",
        "sasl.kerberos.service.name": "kafka",
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        for mechanism, module in modules.items():
            settings[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = f"{module};"
    return settings


def unsecured_token(user: str, lifetime_seconds: int = 3600) -> str:
    """Return an unsigned token that Kafka's test handler accepts."""
    now_seconds = now_ms() / 1000
    claims = {"sub": user, "iat": now_seconds - 60, "exp": now_seconds + lifetime_seconds}
    parts = (json.dumps(each).encode() for each in ({"alg": "none"}, claims))
    return ".".join(base64.b64encode(part, b"-_").decode().rstrip("=") for part in parts) + "."
