"""Fetch OAUTHBEARER tokens from an OpenID Connect service with client credentials.

This module needs aiohttp (the extra `oauth`), which is imported on the first request. A token is kept for most of its
lifetime; concurrent logins that need a token share one request.

Source: RFC 6749 §4.4 (client credentials), KIP-768; `ClientCredentialsJwtRetriever` in Apache Kafka.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from math import isfinite, nan
from typing import NoReturn
from urllib.parse import quote_plus, urlsplit

from kafkawire.sdk.client.token_life import expires_ms
from kafkawire.sdk.clock import monotonic_ms, now_ms
from kafkawire.sdk.errors import ConfigurationError, KafkaWireError
from kafkawire.sdk.secret import Secret
from kafkawire.sdk.transport.timing import SingleFlight

__all__ = ["RESPONSE_BYTES_MAX", "ClientCredentials", "TokenRefused", "TokenUnavailable"]

#: The maximum size of a response: a token is a few KiB long.
RESPONSE_BYTES_MAX = 1024 * 1024

#: The time limit of a request: an unresponsive service must not use up the time limit of the whole connection.
REQUEST_TIMEOUT_SECONDS = 10

#: A token is used for this fraction of its lifetime; the rest allows for clock differences.
_USED_SHARE = 0.8

#: How long a token is assumed to be valid if nobody says how long it is: few services issue tokens for less, and the
#: logins of several connections share it.
_UNKNOWN_LIFE_MS = 60_000

#: The maximum number of characters that an error quotes from the service's reason.
_SHOWN_CHARACTERS = 200

#: Hosts to which a secret may be sent without TLS: this machine.
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class TokenRefused(KafkaWireError):
    """The token service rejects this client."""


class TokenUnavailable(KafkaWireError):
    """The token service cannot be reached, or returns an invalid response."""

    retriable = True


class ClientCredentials:
    """Fetches tokens.

    Args:
        url: the URL of the token endpoint; https, except on this machine.
        client_id: the client's id.
        client_secret: the client's secret.
        scope: the scope to request; None to omit it.
        url_encodes: whether to encode id and secret as RFC 6749 requires. Kafka's client does not encode them by
            default, and some services do not expect it.

    Raises:
        ConfigurationError: the URL cannot be used.
    """

    def __init__(
        self, url: str, client_id: str, client_secret: Secret, scope: str | None = None, *, url_encodes: bool
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme != "https" and (parts.scheme != "http" or parts.hostname not in _LOOPBACK):
            option = "sasl_oauthbearer_token_endpoint_url"
            raise ConfigurationError(option, url, "expected an https:// URL, because a secret is sent to it")
        self._url = url
        self._host = parts.netloc.rpartition("@")[2]
        self._client_id = client_id
        self._client_secret = client_secret
        self._scope = scope
        self._url_encodes = url_encodes
        self._token: Secret | None = None
        self._use_until_ms = 0.0
        self._fetching: SingleFlight[Secret] = SingleFlight()

    async def token(self) -> Secret:
        """Return a token that remains valid for some time.

        Raises:
            TokenRefused: the service rejects this client.
            TokenUnavailable: the service cannot be reached, or returns an invalid response.
            ConfigurationError: aiohttp is not installed.
        """
        if self._token is not None and monotonic_ms() < self._use_until_ms:
            return self._token
        return await self._fetching.run("token", self._fetch)

    async def _fetch(self) -> Secret:
        asked_ms = monotonic_ms()
        status, answer = await self._post()
        if status != 200:
            self._refused(status, answer)
        token = answer.get("access_token")
        if not isinstance(token, str):
            raise TokenUnavailable(f"the response from {self._host} has no access_token")
        self._token = Secret(token)
        self._use_until_ms = asked_ms + _life_ms(answer.get("expires_in"), self._token) * _USED_SHARE
        return self._token

    async def _post(self) -> tuple[int, Mapping[str, object]]:
        """Return the status and the JSON object of a response; an empty object if the content is not a JSON object."""
        try:
            import aiohttp
        except ImportError as error:
            option = "sasl_oauthbearer_token_endpoint_url"
            raise ConfigurationError(option, self._url, 'needs aiohttp: pip install "kafkawire[oauth]"') from error
        from kafkawire.sdk.transport.aiohttp_names import name_resolver

        form = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
        headers = {"Accept": "application/json", "Authorization": f"Basic {self._basic()}"}
        timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_SECONDS)
        names = aiohttp.TCPConnector(resolver=name_resolver())
        try:
            async with (
                aiohttp.ClientSession(connector=names, timeout=timeout) as session,
                # A redirect would take the secret elsewhere.
                session.post(self._url, data=form, headers=headers, allow_redirects=False) as response,
            ):
                data = bytearray()
                async for chunk in response.content.iter_any():
                    data += chunk
                    if len(data) > RESPONSE_BYTES_MAX:
                        raise TokenUnavailable(
                            f"{self._host} sent more than {RESPONSE_BYTES_MAX} bytes, the limit for a token response"
                        )
                return response.status, _json_object(bytes(data))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TokenUnavailable(f"{self._host}: {str(error) or type(error).__name__}") from error

    def _basic(self) -> str:
        pair = [self._client_id, self._client_secret.reveal()]
        if self._url_encodes:
            pair = [quote_plus(text) for text in pair]
        return base64.b64encode(":".join(pair).encode()).decode()

    def _refused(self, status: int, answer: Mapping[str, object]) -> NoReturn:
        said = ": ".join(str(answer[name]) for name in ("error", "error_description") if name in answer)
        text = f"{self._host} answered with status {status}: {said or 'no reason given':.{_SHOWN_CHARACTERS}}"
        # RFC 6749 §5.2: 400 and 401 concern this client; others can be temporary.
        raise TokenRefused(text) if status in (400, 401, 403) else TokenUnavailable(text)


def _life_ms(expires_in: object, token: Secret) -> float:
    """Return how long a token is valid: as the service says, in a number or in text, or as the token itself says."""
    try:
        seconds = float(expires_in) if isinstance(expires_in, int | float | str) else nan
    except ValueError:
        seconds = nan
    if isfinite(seconds):
        return seconds * 1000
    end_ms = expires_ms(token)
    return _UNKNOWN_LIFE_MS if end_ms is None else end_ms - now_ms()


def _json_object(data: bytes) -> Mapping[str, object]:
    import json

    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}
