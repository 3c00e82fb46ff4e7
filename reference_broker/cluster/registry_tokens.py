"""The delegation tokens of a cluster, in its registry; every broker follows the changes that other brokers make.

    request ──change──▶ /delegation_token/tokens/<id>
                          then /delegation_token/token_changes/token_change_0000000007   <id>
                                                │ all brokers
    RegistryTokens ◀──────────── read ──────────┘

The numbers of notifications are consecutive. After a gap or a failure, and in a new session, all tokens are read again.

Source: `DelegationTokenManagerZk`, `ZkNodeChangeNotificationListener`, `KafkaZkClient` in Apache Kafka 3.9.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from kafkawire.reference_broker.cluster.registry_failures import broker_error
from kafkawire.reference_broker.cluster.startup import node_acl
from kafkawire.reference_broker.metadata.delegation_tokens import (
    Revise,
    TokenDone,
    TokenInformation,
    stored_token,
    token_of,
)
from kafkawire.reference_broker.work.timers import Timer, Timers
from kafkawire.sdk.errors import EncodeError
from kafkawire.sdk.protocol.tables.znodes import (
    DELEGATION_TOKEN,
    DELEGATION_TOKEN_CHANGE,
    DELEGATION_TOKEN_CHANGES,
    DELEGATION_TOKENS,
)
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import (
    SESSION_ENDED,
    Children,
    CreateMode,
    Data,
    Delete,
    GetData,
    Registry,
    RegistryCode,
    RegistryError,
    SessionListener,
    WatchEvent,
)
from kafkawire.sdk.registry.steps import (
    ATTEMPTS_MAX,
    BATCH_MAX,
    Run,
    Steps,
    across_sessions,
    create,
    create_with_parents,
    delete,
    found,
    list_children,
    read,
    run,
    set_data,
)

__all__ = ["EXPIRATION_MS", "RETRY_MS", "TOKENS_MAX", "RegistryTokens"]

_log = logging.getLogger("kafkawire.broker")

#: The age after which a broker deletes a notification, as in Kafka.
EXPIRATION_MS: Final = 15 * 60 * 1000

#: Maximum number of tokens: ZooKeeper lists at most 1 MiB of names, those of 40,000 tokens, and fails with more.
TOKENS_MAX: Final = 20_000

#: The pause after a failure before all tokens are read again.
RETRY_MS: Final = 10_000

#: No notification has been seen yet.
_NONE: Final = -1

#: The errors of a write to a token that another broker has changed, created or removed since it was read.
_CONFLICTS: Final = frozenset({RegistryCode.BAD_VERSION, RegistryCode.NODE_EXISTS, RegistryCode.NO_NODE})


class RegistryTokens(SessionListener):
    """The delegation tokens in a registry; see `TokenStore`. There are none before `start`.

    A token that cannot be read is logged, and treated as if it did not exist, as in Kafka.

    Args:
        registry: holds the tokens.
        timers: used for the pauses after failures.
        clock: returns the time in ms.
        is_secure: whether only brokers may read and change the nodes (`zookeeper.set.acl`).
    """

    def __init__(
        self, registry: Registry, timers: Timers, clock: Callable[[], int], *, is_secure: bool = False
    ) -> None:
        self._tokens: dict[str, TokenInformation] = {}
        self.tokens: Mapping[str, TokenInformation] = self._tokens
        self.on_change: Callable[[str], None] = lambda token_id: None
        self.is_registry = True
        self.tokens_max = TOKENS_MAX
        self._registry = registry
        self._timers = timers
        self._clock = clock
        self._token_acl = node_acl(DELEGATION_TOKEN, is_secure=is_secure)
        self._change_acl = node_acl(DELEGATION_TOKEN_CHANGES, is_secure=is_secure)
        self._ready: Callable[[Exception | None], None] | None = None
        self._is_closed = False
        self._run: Run[None] | None = None
        self._retry: Timer | None = None
        #: Whether there may be more to read when the current run has ended.
        self._is_due = False
        #: Whether notifications may have been missed.
        self._reads_all = True
        #: The zxid of the creation of the notifications' parent; if it is recreated, numbers start from 0 again.
        self._parent = 0
        self._last = _NONE
        #: The creation time of each existing notification, keyed by number.
        self._made_ms: dict[int, int] = {}

    def start(self, ready: Callable[[Exception | None], None]) -> None:
        """Read all tokens, and follow their changes.

        Args:
            ready: called once: with None when all tokens have been read, or with the error of a failed first attempt,
                after which more attempts follow.
        """
        self._ready = ready
        self._registry.add_listener(self)
        if self._registry.session_id:
            self._look()

    def close(self) -> None:
        """Stop following; `ready` is no longer called."""
        self._is_closed = True
        self._registry.remove_listener(self)
        if self._run is not None:
            self._run.cancel()
        if self._retry is not None:
            self._retry.cancel()

    def opened(self) -> None:
        """Watch again and read everything, since notifications may have come and gone between sessions."""
        self._reads_all = True
        self._look()

    # Changes by this broker.

    def change(self, token_id: str, revise: Revise, done: TokenDone) -> None:
        def failed(error: Exception) -> None:
            done(broker_error(error, f"delegation token {token_id} was not changed"))

        run(self._registry, across_sessions(lambda: self._change(token_id, revise)), lambda _: done(None), failed)

    def _change(self, token_id: str, revise: Revise) -> Steps[None]:
        path = DELEGATION_TOKEN.path(token_id)
        for _ in range(ATTEMPTS_MAX):
            data = yield from read(path)
            revised = revise(None if data is None else _decoded(data, path))
            try:
                if revised is None:
                    if data is not None:
                        yield from delete(path, data.stat.version)
                elif data is None:
                    yield from create(path, DELEGATION_TOKEN.encode(stored_token(revised)), acl=self._token_acl)
                else:
                    yield from set_data(path, DELEGATION_TOKEN.encode(stored_token(revised)), data.stat.version)
            except RegistryError as error:
                if error.code not in _CONFLICTS:
                    raise
                continue
            self._take(token_id, revised)
            content, mode = DELEGATION_TOKEN_CHANGE.encode(token_id), CreateMode.PERSISTENT_SEQUENTIAL
            yield from create(DELEGATION_TOKEN_CHANGE.prefix, content, mode, self._change_acl)
            return
        detail = f"another broker changed the token during each of {ATTEMPTS_MAX} attempts"
        raise RegistryError(RegistryCode.BAD_VERSION, path, detail)

    def _take(self, token_id: str, token: TokenInformation | None) -> None:
        before = self._tokens.get(token_id)
        if token is None:
            self._tokens.pop(token_id, None)
        else:
            self._tokens[token_id] = token
        if token != before:
            try:
                self.on_change(token_id)
            except Exception:  # a defect, which must not keep other tokens from being read
                _log.exception("a listener failed to take delegation token %s", token_id)

    # Changes by other brokers.

    def _watched(self, event: WatchEvent) -> None:
        self._look()

    def _look(self) -> None:
        if self._is_closed:
            return
        if self._run is not None and not self._run.is_over:
            self._is_due = True
            return
        self._is_due = False
        if self._retry is not None:
            self._retry.cancel()
        self._run = run(self._registry, self._take_new(), self._ended, self._failed)

    def _ended(self, result: None) -> None:
        self._tell(None)
        if self._is_due:
            self._look()

    def _tell(self, error: Exception | None) -> None:
        ready, self._ready = self._ready, None
        if ready is not None:
            ready(error)

    def _failed(self, error: Exception) -> None:
        self._reads_all = True
        if isinstance(error, RegistryError) and error.code in SESSION_ENDED:
            # A new session begins with a call of `opened`, which may already have happened.
            if self._is_due:
                self._look()
            return
        is_defect = not isinstance(error, RegistryError)
        _log.error("delegation tokens could not be read, and will be re-read later: %s", error, exc_info=is_defect)
        self._retry = self._timers.at(self._clock() + RETRY_MS, lambda now_ms: self._look())
        self._tell(error)

    def _take_new(self) -> Steps[None]:
        """Read the tokens that new notifications name, and delete old notifications."""
        listed = yield from self._list()
        if listed.stat.czxid != self._parent:
            self._parent, self._last, self._reads_all = listed.stat.czxid, _NONE, True
            self._made_ms.clear()
        numbers = _numbers_in(listed.names)
        self._made_ms = {number: self._made_ms[number] for number in numbers if number in self._made_ms}
        new = [number for number in numbers if number not in self._made_ms]
        changed = yield from self._read_notifications(new)
        has_gap = new != list(range(self._last + 1, self._last + 1 + len(new))) or len(changed) < len(new)
        if self._reads_all or has_gap:
            yield from self._read_all()
        else:
            yield from self._read(dict.fromkeys(changed.values()))
        self._reads_all = False
        self._last = max((self._last, *new))
        oldest_ms = self._clock() - EXPIRATION_MS
        yield from self._delete([number for number, made_ms in self._made_ms.items() if made_ms < oldest_ms])

    def _list(self) -> Steps[Children]:
        """List the notifications and watch for more; create the nodes that hold them and the tokens."""
        path = DELEGATION_TOKEN_CHANGES.path()
        for _ in range(ATTEMPTS_MAX):
            listed = yield from list_children(path, self._watched)
            if listed is not None:
                return listed
            yield from create_with_parents(path, None, self._change_acl)
        detail = f"another program deleted the node during each of {ATTEMPTS_MAX} attempts"
        raise RegistryError(RegistryCode.NO_NODE, path, detail)

    def _read_notifications(self, numbers: Sequence[int]) -> Steps[Mapping[int, str]]:
        """Return the token ids in notifications; leave out notifications deleted in the meantime."""
        outcomes = yield [GetData(DELEGATION_TOKEN_CHANGE.path(number)) for number in numbers]
        changed = {}
        for number, outcome in zip(numbers, outcomes, strict=True):
            data = found(outcome, Data)
            if data is not None:
                self._made_ms[number] = data.stat.ctime_ms
                try:
                    changed[number] = DELEGATION_TOKEN_CHANGE.decode(data.data)
                except DamagedZnode as error:
                    _log.error("a notification about a delegation token cannot be read: %s", error)
        return changed

    def _read_all(self) -> Steps[None]:
        path = DELEGATION_TOKENS.path()
        listed = yield from list_children(path)
        if listed is None:
            yield from create_with_parents(path, None, self._token_acl)
        present = () if listed is None else listed.names
        yield from self._read(dict.fromkeys((*present, *self._tokens)))

    def _read(self, token_ids: Collection[str]) -> Steps[None]:
        """Read tokens; one that no longer exists was removed."""
        wanted = [token_id for token_id in token_ids if _is_path_part(token_id)]
        for begin in range(0, len(wanted), BATCH_MAX):
            batch = wanted[begin : begin + BATCH_MAX]
            paths = [DELEGATION_TOKEN.path(token_id) for token_id in batch]
            outcomes = yield [GetData(path) for path in paths]
            for token_id, path, outcome in zip(batch, paths, outcomes, strict=True):
                data = found(outcome, Data)
                self._take(token_id, None if data is None else _decoded(data, path))

    def _delete(self, numbers: Iterable[int]) -> Steps[None]:
        outcomes = yield [Delete(DELEGATION_TOKEN_CHANGE.path(number)) for number in numbers]
        for outcome in outcomes:
            # Every broker deletes old notifications, so another broker may have been faster.
            if isinstance(outcome, RegistryError) and outcome.code is not RegistryCode.NO_NODE:
                _log.warning("could not delete an old notification: %s", outcome)


def _numbers_in(names: Iterable[str]) -> list[int]:
    """Return the notifications' numbers in ascending order; children with other names are not notifications."""
    numbers: list[int] = []
    for name in names:
        try:
            numbers += DELEGATION_TOKEN_CHANGE.parameters(f"{DELEGATION_TOKEN_CHANGES.path()}/{name}")
        except DamagedZnode:
            continue
    return sorted(number for number in numbers if number >= 0)


def _is_path_part(token_id: str) -> bool:
    """Return whether a token can have this id, which comes from a notification that any program may write."""
    try:
        DELEGATION_TOKEN.path(token_id)
    except EncodeError:
        _log.error("ignoring a notification about a delegation token with the id %.60r", token_id)
        return False
    return True


def _decoded(data: Data, path: str) -> TokenInformation | None:
    try:
        return token_of(DELEGATION_TOKEN.decode(data.data, path))
    except (DamagedZnode, ValueError) as error:
        _log.error("a delegation token cannot be read: %s", error)
        return None
