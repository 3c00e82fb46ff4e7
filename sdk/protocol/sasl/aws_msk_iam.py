"""AWS_MSK_IAM: Amazon MSK's login, a signed statement that says which identity connects to which broker.

Its signatures were tested against those of Amazon's own library and documentation, not against MSK.

Source: Amazon's description of the mechanism (`aws-msk-iam-auth`), and of Signature Version 4 in query strings.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote

from kafkawire.sdk.errors import ConfigurationError, RemoteProtocolError
from kafkawire.sdk.secret import Secret

__all__ = ["AwsCredentials", "AwsMskIamAuthenticator", "region_of", "signing_key"]

#: How long the statement is valid, in seconds; as in Amazon's own client.
EXPIRES_SECONDS = 900

_VERSION = "2020_10_22"
_SERVICE = "kafka-cluster"
_ACTION = f"{_SERVICE}:Connect"
_ALGORITHM = "AWS4-HMAC-SHA256"
_SIGNED_HEADERS = "host"

_MSK_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$")


class AwsCredentials(NamedTuple):
    """The credentials that sign a login.

    Attributes:
        access_key: the public half.
        secret_key: the secret half.
        session_token: the token of temporary credentials, otherwise None.
    """

    access_key: str
    secret_key: Secret
    session_token: Secret | None = None


class AwsMskIamAuthenticator:
    """One login with AWS credentials.

    Args:
        host: the broker's host name, as used by the client to connect.
        region: the region of the cluster.
        credentials: the credentials to sign with.
        now_ms: the current time in milliseconds since the epoch.
        user_agent: the name that AWS logs.
    """

    mechanism = "AWS_MSK_IAM"

    def __init__(self, host: str, region: str, credentials: AwsCredentials, now_ms: int, user_agent: str) -> None:
        self._host = host
        self._region = region
        self._credentials = credentials
        self._time = datetime.fromtimestamp(now_ms // 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
        self._user_agent = user_agent

    def first_message(self) -> bytes:
        fields = self._signed_fields()
        query = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in sorted(fields.items()))
        nothing = hashlib.sha256(b"").hexdigest()
        request = f"GET\n/\n{query}\nhost:{self._host}\n\n{_SIGNED_HEADERS}\n{nothing}"
        to_sign = f"{_ALGORITHM}\n{self._time}\n{self._scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        key = signing_key(self._credentials.secret_key, self._time[:8], self._region, _SERVICE)
        statement = {
            "version": _VERSION,
            "host": self._host,
            "user-agent": self._user_agent,
            **{name.lower(): value for name, value in fields.items()},
            "x-amz-signature": hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest(),
        }
        return json.dumps(statement, separators=(",", ":")).encode()

    def respond(self, challenge: bytes) -> None:
        """Check the broker's final message, which names the version of the mechanism."""
        try:
            version = json.loads(challenge)["version"]
        except (ValueError, TypeError, KeyError, RecursionError):
            version = None
        if version != _VERSION:
            raise RemoteProtocolError(f"AWS_MSK_IAM: the broker's response does not contain version {_VERSION}")

    @property
    def _scope(self) -> str:
        return f"{self._time[:8]}/{self._region}/{_SERVICE}/aws4_request"

    def _signed_fields(self) -> dict[str, str]:
        credentials = self._credentials
        fields = {
            "Action": _ACTION,
            "X-Amz-Algorithm": _ALGORITHM,
            "X-Amz-Credential": f"{credentials.access_key}/{self._scope}",
            "X-Amz-Date": self._time,
            "X-Amz-Expires": str(EXPIRES_SECONDS),
            "X-Amz-SignedHeaders": _SIGNED_HEADERS,
        }
        if credentials.session_token is not None:
            fields["X-Amz-Security-Token"] = credentials.session_token.reveal()
        return fields


def region_of(host: str) -> str:
    """Return the region in the name of an MSK broker.

    Raises:
        ConfigurationError: the name contains no region.
    """
    found = _MSK_HOST.search(host)
    if found is None:
        reason = f"required, because the host name {host} does not include a region"
        raise ConfigurationError("sasl_aws_region", None, reason)
    return found[1]


def signing_key(secret_key: Secret, date: str, region: str, service: str) -> bytes:
    """Return the signing key of Signature Version 4 for a day, region and service; `date` is YYYYMMDD."""
    key = b"AWS4" + secret_key.reveal().encode()
    for part in (date, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
