"""Drive the gate of one connection: version negotiation and login at first, and another login before each session ends.

`ClientConnection` makes the decisions; this module provides the timer, the task and the waiting. Requests continue
while the credentials for another login are fetched, and are held back only while the broker checks them.

Source: KIP-368 (re-authentication).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from math import isinf

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import KafkaWireError, RequestTimedOut
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.gate import ConnectionState
from kafkawire.sdk.protocol.sasl.authenticator import Authenticator, CredentialsUnavailable, Login
from kafkawire.sdk.transport.failures import login_lost
from kafkawire.sdk.transport.tasks import new_task
from kafkawire.sdk.transport.timing import random_fraction
from kafkawire.sdk.transport.user_code import contained
from kafkawire.sdk.transport.wire import Address, Wire

__all__ = ["CREDENTIALS_AGE_MAX_MS", "CREDENTIALS_PAUSE_MS", "GateDriver"]

logger = logging.getLogger("kafkawire.security")

#: Pause before credentials are requested again; a session lasts for minutes, and a service that is down does not
#: recover faster if it gets more requests.
CREDENTIALS_PAUSE_MS = 1_000


#: Credentials that are older when the broker wants them are fetched again: it may have answered a long request first,
#: and a token may have only seconds to live.
CREDENTIALS_AGE_MAX_MS = 1_000


class GateDriver:
    """The gate of one connection.

    Args:
        protocol: the connection's state machine.
        wire: carries the bytes.
        address: the broker's address.
        login: creates authenticators; None if the connection does not log in.
        credentials: where the authenticators get their credentials, for errors.
        timeout_ms: timeout for each re-authentication; the first login is subject to the connection timeout.
        end: ends the connection with an error.
    """

    def __init__(
        self,
        protocol: ClientConnection,
        wire: Wire,
        address: Address,
        login: Login | None,
        credentials: str,
        timeout_ms: int,
        end: Callable[[KafkaWireError], None],
    ) -> None:
        self._protocol = protocol
        self._wire = wire
        self._address = address
        self._login = login
        self._credentials = credentials
        self._timeout_ms = timeout_ms
        self._end = end
        self._moved: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._ended: KafkaWireError | None = None
        self._lines = LogLimit(logger)

    async def open(self, response_timeout_ms: int) -> None:
        """Pass the gate for the first time.

        Args:
            response_timeout_ms: timeout for each response.

        Raises:
            TimeoutError: a response did not arrive in time.
            KafkaWireError: the connection ended, or cannot be used.
        """
        self._protocol.start()
        self._write()
        await self._pass(response_timeout_ms / 1000)
        self._schedule()

    def step(self) -> None:
        """Continue after the connection has received a response to one of the gate's requests."""
        self._write()
        if self._moved is not None and not self._moved.done():
            self._moved.set_result(None)

    def close(self, error: KafkaWireError) -> None:
        """Stop, because the connection has ended."""
        self._ended = error
        if self._timer is not None:
            self._timer.cancel()
        if self._moved is not None and not self._moved.done():
            self._moved.set_exception(error)
        elif self._task is not None:
            self._task.cancel()

    async def _pass(self, response_timeout_seconds: float | None = None) -> None:
        """Wait until the connection is ready, or wants credentials again."""
        while self._protocol.state is not ConnectionState.READY and not self._protocol.wants_credentials:
            if self._protocol.wants_login:
                self._log_in(await self._authenticator())
            if self._ended is not None:
                raise self._ended
            self._moved = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(response_timeout_seconds):
                    await self._moved
            finally:
                self._moved = None
        if self._ended is not None:  # the connection ended right after the last response
            raise self._ended

    async def _authenticator(self) -> Authenticator:
        assert self._login is not None, "a connection without a login never wants one"
        try:
            return await self._login(self._address.host)
        except KafkaWireError:
            raise
        except GeneratorExit:
            raise
        except BaseException as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the caller was cancelled, not the provider
            reason = f"no credentials: {self._credentials} raised {type(error).__name__}"
            raise CredentialsUnavailable(reason) from contained(error)

    def _log_in(self, authenticator: Authenticator, *, asks_again: bool = False) -> None:
        if self._ended is None:
            self._protocol.log_in(authenticator, monotonic_ms(), random_fraction(), asks_again=asks_again)
            self._write()

    def _write(self) -> None:
        if parts := self._protocol.take_outgoing():
            self._wire.write(parts)

    def _schedule(self) -> None:
        due_ms = self._protocol.reauthenticate_at_ms
        if not isinf(due_ms) and self._ended is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0, due_ms - monotonic_ms()) / 1000, self._begin_again)

    def _begin_again(self) -> None:
        self._task = new_task(asyncio.get_running_loop(), self._reauthenticate())

    async def _reauthenticate(self) -> None:
        try:
            authenticator, fetched_ms = await self._fresh_authenticator(), monotonic_ms()
            self._log_in(authenticator, asks_again=True)
            await self._pass_in_time()
            if monotonic_ms() - fetched_ms > CREDENTIALS_AGE_MAX_MS:
                authenticator = await self._fresh_authenticator()
            self._authenticate(authenticator)
            await self._pass_in_time()
        except TimeoutError:
            self._end(RequestTimedOut(f"{self._address} did not re-authenticate within {self._timeout_ms} ms"))
        except KafkaWireError as error:
            if error is not self._ended:
                self._end(login_lost(self._address, error))
        else:
            self._lines.info("again", monotonic_ms(), "authenticated again at %s", self._address)
            self._schedule()

    def _authenticate(self, authenticator: Authenticator) -> None:
        if self._ended is None:
            self._protocol.authenticate(authenticator, monotonic_ms())
            self._write()

    async def _pass_in_time(self) -> None:
        """Pass the gate within the timeout, which starts once the broker can begin, after answering earlier requests.

        A join or a fetch can take longer than a login; such requests have their own timeouts.
        """
        while True:
            answered_others_first = self._protocol.answers_others_first
            try:
                async with asyncio.timeout(self._timeout_ms / 1000):
                    return await self._pass()
            except TimeoutError:
                if not answered_others_first:
                    raise

    async def _fresh_authenticator(self) -> Authenticator:
        """Return an authenticator; if creating one fails, retry for as long as the session lasts."""
        while True:
            try:
                async with asyncio.timeout(self._timeout_ms / 1000):
                    return await self._authenticator()
            except TimeoutError:
                text = f"{self._credentials} gave no credentials within connect_timeout_ms={self._timeout_ms}"
                failure: KafkaWireError = CredentialsUnavailable(text)
            except KafkaWireError as error:
                failure = error
            if not failure.retriable or monotonic_ms() + CREDENTIALS_PAUSE_MS >= self._protocol.session_ends_ms:
                raise failure
            self._lines.warning(
                "credentials", monotonic_ms(), "no new credentials for %s, asking again: %s", self._address, failure
            )
            await asyncio.sleep(CREDENTIALS_PAUSE_MS / 1000)
