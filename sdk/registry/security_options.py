"""How a program and ZooKeeper authenticate each other, by TLS and SASL; the options have Apache Kafka's names.

Java programs take the login from system properties, above all `java.security.auth.login.config`. In kafkawire, these
are ordinary options.

Source: `ZkConfigs`, `JaasUtils` in Apache Kafka 3.9; `X509Util`, `KeyStoreFileType` in Apache ZooKeeper.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import Options, Reader, flag, listed, literal, option, read_text, text
from kafkawire.sdk.secret import Secret

if TYPE_CHECKING:
    import ssl

    from kafkawire.sdk.registry.login import SaslDigest
    from kafkawire.sdk.registry.zookeeper_security import ZooKeeperSecurity

__all__ = ["ZooKeeperSecurityOptions"]

#: The class of Java's client that supports TLS, and the one that does not.
_NETTY: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
_NIO: Final = "org.apache.zookeeper.ClientCnxnSocketNIO"

#: The types of key stores, and the file name suffixes by which ZooKeeper tells them apart.
_TYPES: Final = {"PEM": (".pem",), "PKCS12": (".p12", ".pfx"), "JKS": (".jks",)}

_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")


def _one_of(*values: str) -> Reader:
    def read(name: str, value: object) -> object:
        if value is not None and value not in values:
            raise ConfigurationError(name, value, f"expected one of {listed(value, values)}")
        return value

    return read


def _optional_choice(*values: str, kafka: str) -> Any:
    return option(None, _one_of(*values), f"{literal(*values)} | None", kafka=kafka)


def _secret(name: str, value: object) -> Secret | None:
    if isinstance(value, Secret):
        return value
    given = read_text(name, value)
    return None if given is None else Secret(given)


def _password(kafka: str) -> Any:
    return option(None, _secret, "str | None", kafka=kafka)


def _read_identification(name: str, value: object) -> str:
    if not isinstance(value, str) or value.strip().lower() not in ("https", ""):
        raise ConfigurationError(name, value, "expected https, or an empty value to skip the check")
    return value.strip().lower()


def _read_versions(name: str, value: object) -> tuple[str, ...] | None:
    if value is None or isinstance(value, tuple):
        return value
    versions = tuple(each.strip() for each in (read_text(name, value) or "").split(","))
    for each in versions:
        if each not in _VERSIONS:
            raise ConfigurationError(name, value, f"expected {' or '.join(_VERSIONS)}, or both separated by a comma")
    return versions


class ZooKeeperSecurityOptions(Options):
    """How a program and ZooKeeper authenticate each other.

    Attributes:
        zookeeper_ssl_client_enable: whether the connection to ZooKeeper uses TLS.
        zookeeper_client_cnxn_socket: the class of Java's client. It has no effect here, but the class without TLS
            support is refused if TLS is enabled.
        zookeeper_ssl_truststore_location: the file with the certificates of the authorities to trust for ZooKeeper's
            certificate; None for the system's authorities.
        zookeeper_ssl_truststore_password: the password of the trust store.
        zookeeper_ssl_truststore_type: "PEM", or "PKCS12" if the package `cryptography` is installed; "JKS" is refused.
            None to infer it from the suffix of the file name.
        zookeeper_ssl_keystore_location: the file with this program's certificate chain and private key; None if it has
            no certificate.
        zookeeper_ssl_keystore_password: the password of the key store and of the private key.
        zookeeper_ssl_keystore_type: the type of the key store; see `zookeeper_ssl_truststore_type`.
        zookeeper_ssl_endpoint_identification_algorithm: "https" to check that ZooKeeper's certificate matches its host
            name, "" to skip the check.
        zookeeper_ssl_protocol: the TLS version, "TLSv1.2" or "TLSv1.3"; None for either.
        zookeeper_ssl_enabled_protocols: the TLS versions, separated by a comma; this overrides
            `zookeeper_ssl_protocol`.
        java_security_auth_login_config: the login module file. Its section `Client` contains the user name and the
            password for DIGEST-MD5; without that section, there is no login.
        zookeeper_sasl_client: whether a login is allowed. False is refused if the login module file defines one.
        zookeeper_sasl_clientconfig: the name of the section in the login module file.
    """

    zookeeper_ssl_client_enable: bool = flag(False, kafka="zookeeper.ssl.client.enable")
    zookeeper_client_cnxn_socket: str | None = option(
        None, _one_of(_NETTY, _NIO), "str | None", kafka="zookeeper.clientCnxnSocket"
    )
    zookeeper_ssl_truststore_location: str | None = text(None, kafka="zookeeper.ssl.truststore.location")
    zookeeper_ssl_truststore_password: Secret | None = _password("zookeeper.ssl.truststore.password")
    zookeeper_ssl_truststore_type: str | None = _optional_choice(*_TYPES, kafka="zookeeper.ssl.truststore.type")
    zookeeper_ssl_keystore_location: str | None = text(None, kafka="zookeeper.ssl.keystore.location")
    zookeeper_ssl_keystore_password: Secret | None = _password("zookeeper.ssl.keystore.password")
    zookeeper_ssl_keystore_type: str | None = _optional_choice(*_TYPES, kafka="zookeeper.ssl.keystore.type")
    zookeeper_ssl_endpoint_identification_algorithm: str = option(
        "https", _read_identification, literal("https", ""), kafka="zookeeper.ssl.endpoint.identification.algorithm"
    )
    zookeeper_ssl_protocol: str | None = _optional_choice(*_VERSIONS, kafka="zookeeper.ssl.protocol")
    zookeeper_ssl_enabled_protocols: tuple[str, ...] | None = option(
        None, _read_versions, "str | None", kafka="zookeeper.ssl.enabled.protocols"
    )
    java_security_auth_login_config: str | None = text(None, kafka="java.security.auth.login.config")
    zookeeper_sasl_client: bool = flag(True, kafka="zookeeper.sasl.client")
    zookeeper_sasl_clientconfig: str = text("Client", kafka="zookeeper.sasl.clientconfig")

    def check(self, given: Collection[str]) -> None:
        super().check(given)
        if self.zookeeper_ssl_client_enable:
            if self.zookeeper_client_cnxn_socket == _NIO:
                reason = f"it does not support TLS, which zookeeper.ssl.client.enable requires; expected {_NETTY}"
                raise ConfigurationError("zookeeper_client_cnxn_socket", self.zookeeper_client_cnxn_socket, reason)
            return
        for name in given:
            if name.startswith("zookeeper_ssl_") and name != "zookeeper_ssl_client_enable":
                value = getattr(self, name)
                if value is not None:
                    raise ConfigurationError(name, value, "has no effect without zookeeper.ssl.client.enable=true")

    def zookeeper_security(self) -> "ZooKeeperSecurity":
        """Read the files, and return how to secure a connection.

        Raises:
            ConfigurationError: a file cannot be used.
        """
        from kafkawire.sdk.registry.zookeeper_security import ZooKeeperSecurity  # few programs need it

        tls = self._tls() if self.zookeeper_ssl_client_enable else None
        sasl = self._login()
        has_certificate = tls is not None and self.zookeeper_ssl_keystore_location is not None
        return ZooKeeperSecurity(tls, sasl, sasl is not None or has_certificate)

    def _login(self) -> "SaslDigest | None":
        path = self.java_security_auth_login_config
        if path is None:
            return None
        from kafkawire.sdk.registry.login import login_of  # few programs have one

        login = login_of("java_security_auth_login_config", path, self.zookeeper_sasl_clientconfig)
        if login is not None and not self.zookeeper_sasl_client:
            reason = f"{path} has a section {self.zookeeper_sasl_clientconfig} for a login to ZooKeeper"
            raise ConfigurationError("zookeeper_sasl_client", False, reason)
        return login

    def _tls(self) -> "ssl.SSLContext":
        from kafkawire.sdk.registry.key_stores import KeyStore, context_of  # few programs use TLS here

        trusted = KeyStore(
            "zookeeper_ssl_truststore_location",
            self.zookeeper_ssl_truststore_location,
            self.zookeeper_ssl_truststore_type,
            self.zookeeper_ssl_truststore_password,
        )
        own = KeyStore(
            "zookeeper_ssl_keystore_location",
            self.zookeeper_ssl_keystore_location,
            self.zookeeper_ssl_keystore_type,
            self.zookeeper_ssl_keystore_password,
        )
        single = None if self.zookeeper_ssl_protocol is None else (self.zookeeper_ssl_protocol,)
        versions = self.zookeeper_ssl_enabled_protocols or single or _VERSIONS
        checks_hostname = self.zookeeper_ssl_endpoint_identification_algorithm == "https"
        return context_of(trusted, own, versions, checks_hostname=checks_hostname)
