"""A broker's registration: an ephemeral node that announces the broker. The `czxid` of the node is the broker's epoch.

    register_first ──▶ WAITING ──▶ REGISTERED ◀──▶ LOST

A killed process leaves its registration behind until its session ends, so the first registration waits for that. When a
session ends, the broker continues, registers again in the next one, and tells listeners the new epoch. This broker's
controller also calls `register` before it stands for election; the second of the two calls finds the first one's node.

Source: `KafkaZkClient.registerBroker`, `BrokerIdZNode`, `KafkaController.processRegisterBrokerAndReelect` in Apache
Kafka 3.9, which refuses to start while the former registration exists.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import Final, NamedTuple

from kafkawire.reference_broker.cluster.controller.live_brokers import Endpoint
from kafkawire.reference_broker.cluster.controller.outward_calls import call_out
from kafkawire.reference_broker.work.timers import Later, nothing
from kafkawire.sdk.errors import ConfigurationError, KafkaWireError
from kafkawire.sdk.protocol.tables.configs import BROKER_CONFIGS
from kafkawire.sdk.protocol.tables.znodes import BROKER, BrokerRegistration
from kafkawire.sdk.protocol.values import quoted
from kafkawire.sdk.registry.acls import OPEN_ACL, Acl
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import (
    SESSION_ENDED,
    Data,
    Registry,
    RegistryCode,
    RegistryError,
    SessionListener,
    WatchEvent,
)
from kafkawire.sdk.registry.steps import Run, Steps, create_ephemeral, read
from kafkawire.sdk.states import Edges

__all__ = [
    "EXPIRY_SLACK_MS",
    "FORMER_SESSIONS_MAX",
    "REGISTRATION_EDGES",
    "REPEAT_PAUSE_MS",
    "BrokerDetails",
    "Registration",
    "RegistrationState",
    "registration_patience_ms",
]

_log = logging.getLogger("kafkawire.broker")

#: A session ends some time after its timeout, since ZooKeeper looks for silent sessions every 2 s, and its leader
#: learns of them from other servers.
EXPIRY_SLACK_MS: Final = 6_000

#: The pause between a broker's attempts to register again after losing its registration.
REPEAT_PAUSE_MS: Final = 2_000

#: Maximum number of ended sessions that this broker remembers. ZooKeeper may keep a node of the last one
#: (ZOOKEEPER-2985); the nodes of earlier ones are long gone.
FORMER_SESSIONS_MAX: Final = 16

#: Maximum number of another broker's endpoints to show in an error.
_ENDPOINTS_SHOWN_MAX: Final = 3

#: The epoch of a broker that has never been registered.
_NO_EPOCH: Final = -1

#: The names of security protocols, in the order of their numbers.
_SECURITY_PROTOCOLS: Final = BROKER_CONFIGS["security.inter.broker.protocol"].one_of
_PLAINTEXT: Final = _SECURITY_PROTOCOLS.index("PLAINTEXT")


class RegistrationState(Enum):
    """What is known about the registration."""

    #: Not registered in any session yet.
    WAITING = auto()
    #: The node exists.
    REGISTERED = auto()
    #: The session that held the registration has ended.
    LOST = auto()
    #: The broker is stopping, or was refused; the node disappears with the session.
    CLOSED = auto()


#: The transitions of a registration; see `kafkawire.sdk.states`.
REGISTRATION_EDGES: Final = Edges(
    "the registration of a broker",
    (RegistrationState.WAITING,),
    {
        RegistrationState.WAITING: {RegistrationState.REGISTERED: "the node is created"},
        RegistrationState.REGISTERED: {
            RegistrationState.LOST: "the session has expired",
        },
        RegistrationState.LOST: {RegistrationState.REGISTERED: "the node is created in the next session"},
    },
    from_any={RegistrationState.CLOSED: "the broker stops, or the first registration is refused"},
)


class BrokerDetails(NamedTuple):
    """A broker's description of itself.

    Attributes:
        broker_id: the broker's id.
        endpoints: the endpoints that the broker advertises, with the ports it listens on.
        rack: `broker.rack`, or None if not configured.
    """

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None

    def content(self, now_ms: int) -> bytes:
        """Return the content of the registration.

        Args:
            now_ms: the wall-clock time.

        Raises:
            EncodeError: a value cannot be written.
        """
        # Clients from old releases read only this address; it is that of an endpoint with neither TLS nor a login.
        plain = next((each for each in self.endpoints if each.security_protocol == _PLAINTEXT), None)
        protocols = {each.listener: _SECURITY_PROTOCOLS[each.security_protocol] for each in self.endpoints}
        return BROKER.encode(
            BrokerRegistration(
                listener_security_protocol_map=protocols,
                endpoints=tuple(map(_connection_text, self.endpoints)),
                rack=self.rack,
                port=-1 if plain is None else plain.port,
                host=None if plain is None else plain.host,
                timestamp_ms=now_ms,
            )
        )


def _connection_text(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener}://{host}:{endpoint.port}"


def registration_patience_ms(session_timeout_ms: int) -> int:
    """Return how long the first registration waits for the session of this broker's former process to end.

    Args:
        session_timeout_ms: `Registry.session_timeout_ms`; the former process is assumed to have used the same timeout.
    """
    return session_timeout_ms + EXPIRY_SLACK_MS


class _First:
    """The first registration, until it is done.

    Attributes:
        done: see `Registration.register_first`.
        failed: see `Registration.register_first`.
        cancel: cancels the timer.
        is_overdue: whether to stop waiting for another session.
        holder: the other session's registration that is being waited for.
    """

    def __init__(self, done: Callable[[int], None], failed: Callable[[Exception], None]) -> None:
        self.done = done
        self.failed = failed
        self.cancel: Callable[[], None] = nothing
        self.is_overdue = False
        self.holder: Data | None = None


class Registration(SessionListener):
    """Registers a broker, and registers it again each time its session ends.

    All methods are called on the thread that owns the registry.

    Args:
        registry: the cluster's registry; its session is followed from now on.
        details: the content to register.
        later: a timer.
        now_ms: returns the wall-clock time.
        acl: the access control list for the node.
    """

    def __init__(
        self,
        registry: Registry,
        details: BrokerDetails,
        later: Later,
        now_ms: Callable[[], int],
        acl: tuple[Acl, ...] = OPEN_ACL,
    ) -> None:
        self._registry = registry
        self._details = details
        self._later = later
        self._now_ms = now_ms
        self._acl = acl
        self._path: Final = BROKER.path(details.broker_id)
        self._state = RegistrationState.WAITING
        self._epoch = _NO_EPOCH
        self._listeners: list[Callable[[int], None]] = []
        self._session_id = registry.session_id
        self._former_sessions: deque[int] = deque(maxlen=FORMER_SESSIONS_MAX)
        self._first: _First | None = None
        #: The attempt in progress, and a function that cancels the timer for the next one.
        self._attempt: Run[Data | None] | None = None
        self._cancel_repetition: Callable[[], None] = nothing
        #: The last problem that was logged.
        self._told = ""
        registry.add_listener(self)

    @property
    def state(self) -> RegistrationState:
        """What is known about the registration."""
        return self._state

    @property
    def epoch(self) -> int:
        """The epoch of the last registration, even after its session has ended; -1 if there was none."""
        return self._epoch

    def add_listener(self, listener: Callable[[int], None]) -> None:
        """Call a function with each new epoch from now on, after the functions added before it."""
        self._listeners.append(listener)

    def register(self) -> Steps[int]:
        """Register in the current session, unless that has already been done.

        Returns:
            The epoch of the broker.

        Raises:
            RegistryError: NODE_EXISTS if another session has registered this id; another code if the registry fails.
        """
        content = self._details.content(self._now_ms())
        stat = yield from create_ephemeral(
            self._path, content, lambda: self._registry.session_id, self._acl, self._former_sessions
        )
        self._registered(stat.czxid)
        return stat.czxid

    def register_first(
        self, patience_ms: int, done: Callable[[int], None], failed: Callable[[Exception], None]
    ) -> None:
        """Register as soon as this broker's former process is gone, and from then on in each new session.

        If the session ends in the meantime, registration continues in the next one.

        Args:
            patience_ms: how long to wait for another session's registration to end; see `registration_patience_ms`.
            done: called with the epoch, after the listeners.
            failed: called instead, once the registration has been closed, with a `ConfigurationError` if another broker
                has this id, or with the registry's error.
        """
        if self._state is not RegistrationState.WAITING or self._first is not None:
            raise RuntimeError(f"broker {self._details.broker_id} has already been registered")
        self._first = _First(done, failed)
        self._first.cancel = self._later(patience_ms, self._out_of_patience)
        self._try()

    def close(self) -> None:
        """Stop registering; the node disappears with the session. Neither callback of `register_first` is called."""
        self._state = REGISTRATION_EDGES.follow(self._state, RegistrationState.CLOSED)
        self._registry.remove_listener(self)
        self._cancel_repetition()
        if self._attempt is not None:
            self._attempt.cancel()
        first, self._first = self._first, None
        if first is not None:
            first.cancel()

    # The session.

    def opened(self) -> None:
        """Register in the new session."""
        self._session_id = self._registry.session_id
        self._try()

    def expired(self) -> None:
        """Record that the registration is gone, or will be soon."""
        if self._session_id:
            self._former_sessions.append(self._session_id)
        if self._state is RegistrationState.REGISTERED:
            self._state = REGISTRATION_EDGES.follow(self._state, RegistrationState.LOST)

    # Attempts.

    def _try(self) -> None:
        """Start an attempt, unless one is in progress or none is needed."""
        is_needed = self._state is RegistrationState.LOST or (
            self._state is RegistrationState.WAITING and self._first is not None
        )
        if not is_needed or self._attempt is not None:
            return
        if self._first is not None:
            self._first.holder = None
        self._attempt = Run(self._registry, self._steps(), self._ended, self._failed)
        self._attempt.begin()

    def _steps(self) -> Steps[Data | None]:
        """Register; if another session has registered, watch and return its registration, or None if it is gone."""
        try:
            yield from self.register()
        except RegistryError as error:
            if error.code is not RegistryCode.NODE_EXISTS:
                raise
            return (yield from read(self._path, self._watched))
        return None

    def _watched(self, event: WatchEvent) -> None:
        self._try()

    def _registered(self, epoch: int) -> None:
        if self._state is RegistrationState.CLOSED:
            return
        if self._state is not RegistrationState.REGISTERED:
            self._state = REGISTRATION_EDGES.follow(self._state, RegistrationState.REGISTERED)
        self._cancel_repetition()
        if epoch != self._epoch:
            self._epoch, self._told = epoch, ""
            _log.info("broker %d is registered with epoch %d", self._details.broker_id, epoch)
            for listener in list(self._listeners):
                call_out("a listener of the broker's epoch", partial(listener, epoch))
        first, self._first = self._first, None
        if first is not None:
            first.cancel()
            first.done(epoch)

    def _ended(self, holder: Data | None) -> None:
        self._attempt = None
        if self._state not in (RegistrationState.WAITING, RegistrationState.LOST):
            return
        if holder is None or holder.stat.ephemeral_owner == self._registry.session_id:
            self._try()  # the other session has ended, or the outcome was lost
        elif self._first is None:
            self._repeat(f"another broker is registered with the same id: {_described(self._path, holder)}")
        elif self._first.is_overdue or not holder.stat.ephemeral_owner:
            self._refuse(holder)
        else:
            self._first.holder = holder
            text = f"waiting for another registration with the same id to end: {_described(self._path, holder)}"
            self._tell(logging.WARNING, text)

    def _failed(self, error: Exception) -> None:
        self._attempt = None
        code = error.code if isinstance(error, RegistryError) else None
        if code is RegistryCode.SESSION_EXPIRED or (code in SESSION_ENDED and self._first is None):
            return  # the next session starts another attempt
        if self._first is None:
            self._repeat(f"{error}", None if isinstance(error, KafkaWireError) else error)
        else:
            self._fail(error)

    def _out_of_patience(self) -> None:
        first = self._first
        if first is not None:
            # An attempt in progress may still succeed.
            first.is_overdue = True
            if first.holder is not None:
                self._refuse(first.holder)

    def _refuse(self, holder: Data) -> None:
        reason = f"another broker is registered with this id: {_described(self._path, holder)}"
        self._fail(ConfigurationError("broker.id", self._details.broker_id, reason))

    def _fail(self, error: Exception) -> None:
        first = self._first
        self.close()
        if first is not None:
            first.failed(error)

    def _repeat(self, problem: str, defect: Exception | None = None) -> None:
        """Try again after a pause, since a broker that runs without a registration gets no work."""
        self._tell(logging.ERROR, f"could not register again, and will retry: {problem}", defect)
        self._cancel_repetition()
        self._cancel_repetition = self._later(REPEAT_PAUSE_MS, self._try)

    def _tell(self, level: int, text: str, defect: Exception | None = None) -> None:
        """Log a problem only once, even if several attempts run into it."""
        if text != self._told:
            self._told = text
            _log.log(level, "broker %d: %s", self._details.broker_id, text, exc_info=defect)


def _described(path: str, holder: Data) -> str:
    """Describe a registration's owner, including the advertised endpoints if the content can be read."""
    owner = holder.stat.ephemeral_owner
    session = f"session {owner:#x}" if owner else f"no session, since {path} is persistent and must be deleted"
    try:
        endpoints = BROKER.decode(holder.data, path).endpoints
    except DamagedZnode as error:
        return f"{session}; its content cannot be read: {error.reason}"
    shown = ", ".join(quoted(endpoint) for endpoint in endpoints[:_ENDPOINTS_SHOWN_MAX])
    return f"{session}, which advertises {shown or 'nothing'}"
