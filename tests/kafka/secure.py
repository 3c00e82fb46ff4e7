"""A real Apache Kafka with TLS, SASL and an authorizer: one node with a listener for each way to connect.

SASL_PLAINTEXT and SASL_SSL offer PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER (unsigned tokens), and limit
sessions; SSL requires a client certificate, whose common name is the principal. PLAINTEXT is for setup: every client
that uses it is a superuser.
"""

from __future__ import annotations

import base64
import json

from kafkawire.sdk.clock import now_ms
from tests.certificates import Certificates
from tests.kafka.apache import ApacheKafka
from tests.ports import free_port

__all__ = ["PASSWORDS", "SESSION_MS", "SecureKafka", "unsecured_token"]

#: The passwords of the users; `admin` may do everything.
PASSWORDS = {"admin": "admin-secret", "alice": "alice-secret"}

#: The length of a SASL session. Kafka refuses more than one login per second.
SESSION_MS = 2_000

_LOGIN_MODULES = {
    "plain": "plain.PlainLoginModule required " + " ".join(f'user_{name}="{word}"' for name, word in PASSWORDS.items()),
    "scram-sha-256": "scram.ScramLoginModule required",
    "scram-sha-512": "scram.ScramLoginModule required",
    "oauthbearer": 'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker"',
}


class SecureKafka(ApacheKafka):
    """One secured node, running inside a `with` block.

    Args:
        certificates: the certificates of the node and its clients.

    Attributes:
        addresses: its listeners' addresses, keyed by security protocol; the host is localhost, as in the node's
            certificate.
    """

    def __init__(self, certificates: Certificates) -> None:
        protocols = ("SASL_PLAINTEXT", "SSL", "SASL_SSL")
        self.addresses = {protocol: f"localhost:{free_port()}" for protocol in protocols}
        super().__init__(settings=_settings(certificates), listeners=self.addresses, users=PASSWORDS)


def _settings(certificates: Certificates) -> dict[str, str]:
    settings = {
        "listener.security.protocol.map": ",".join(
            (*(f"{name}:{name}" for name in ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")), "CONTROLLER:PLAINTEXT")
        ),
        "sasl.enabled.mechanisms": ",".join(_LOGIN_MODULES).upper(),
        "connections.max.reauth.ms": str(SESSION_MS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": r"RULE:^CN=([^,]+).*$/$1/,DEFAULT".replace("\\", "\\\\"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
        "delegation.token.secret.key": "the key of all nodes",
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        for mechanism, module in _LOGIN_MODULES.items():
            name = f"listener.name.{listener}.{mechanism}.sasl.jaas.config"
            settings[name] = f"org.apache.kafka.common.security.{module};"
    return settings


def unsecured_token(user: str, lifetime_seconds: int = 3600) -> str:
    """Return an unsigned token that Kafka's test handler accepts."""
    now_seconds = now_ms() / 1000
    claims = {"sub": user, "iat": now_seconds - 60, "exp": now_seconds + lifetime_seconds}
    parts = (json.dumps(each).encode() for each in ({"alg": "none"}, claims))
    return ".".join(base64.b64encode(part, b"-_").decode().rstrip("=") for part in parts) + "."
