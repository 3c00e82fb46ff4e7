"""The delegation tokens of a cluster, in its registry; every broker follows the changes that other brokers make.

    request ──change──▶ /delegation_token/tokens/<id>
                          then /delegation_token/token_changes/token_change_0000000007   <id>
                                                │ all brokers
    RegistryTokens ◀──────────── read ──────────┘

Source: `DelegationTokenManagerZk`, `KafkaZkClient` in Apache Kafka 3.9.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final

from kafkawire.reference_broker.cluster.change_notifications import ChangeNotifications
from kafkawire.reference_broker.cluster.registry_failures import broker_error
from kafkawire.reference_broker.cluster.startup import node_acl
from kafkawire.reference_broker.metadata.token_store import (
    Revise,
    TokenDone,
    TokenInformation,
    stored_token,
    token_of,
)
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import EncodeError
from kafkawire.sdk.protocol.tables.znodes import (
    DELEGATION_TOKEN,
    DELEGATION_TOKEN_CHANGE,
    DELEGATION_TOKEN_CHANGES,
    DELEGATION_TOKENS,
)
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import (
    CreateMode,
    Data,
    Registry,
    RegistryCode,
    RegistryError,
)
from kafkawire.sdk.registry.steps import (
    ATTEMPTS_MAX,
    Steps,
    across_sessions,
    create,
    create_with_parents,
    delete,
    list_children,
    read,
    read_each,
    run,
    set_data,
)

__all__ = ["TOKENS_MAX", "RegistryTokens"]

_log = logging.getLogger("kafkawire.broker")

#: Maximum number of tokens: ZooKeeper lists at most 1 MiB of names, those of 40,000 tokens, and fails with more.
TOKENS_MAX: Final = 20_000

#: The errors of a write to a token that another broker has changed, created or removed since it was read.
_CONFLICTS: Final = frozenset({RegistryCode.BAD_VERSION, RegistryCode.NODE_EXISTS, RegistryCode.NO_NODE})


class RegistryTokens:
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
        self._token_acl = node_acl(DELEGATION_TOKEN, is_secure=is_secure)
        self._change_acl = node_acl(DELEGATION_TOKEN_CHANGES, is_secure=is_secure)
        self._changes = ChangeNotifications(
            registry,
            DELEGATION_TOKEN_CHANGES,
            DELEGATION_TOKEN_CHANGE,
            self,
            "delegation tokens",
            timers,
            clock,
            self._change_acl,
        )

    def start(self, ready: Callable[[Exception | None], None]) -> None:
        """Read all tokens, and follow their changes; see `ChangeNotifications.start`."""
        self._changes.start(ready)

    def close(self) -> None:
        """Stop following."""
        self._changes.close()

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

    # Changes by other brokers: see `Notified`.

    def read_all(self) -> Steps[None]:
        path = DELEGATION_TOKENS.path()
        listed = yield from list_children(path)
        if listed is None:
            yield from create_with_parents(path, None, self._token_acl)
        present = () if listed is None else listed.names
        yield from self._read((*present, *self._tokens))

    def read_changed(self, notifications: Mapping[str, bytes | None]) -> Steps[None]:
        try:
            token_ids = [DELEGATION_TOKEN_CHANGE.decode(content, path) for path, content in notifications.items()]
        except DamagedZnode as error:
            _log.error("a notification about a delegation token cannot be read, so all tokens are: %s", error)
            yield from self.read_all()
        else:
            yield from self._read(token_ids)

    def _read(self, token_ids: Collection[str]) -> Steps[None]:
        """Read tokens; one that no longer exists was removed."""

        def take(token_id: str, data: Data | None) -> None:
            self._take(token_id, None if data is None else _decoded(data, DELEGATION_TOKEN.path(token_id)))

        yield from read_each(filter(_is_path_part, token_ids), DELEGATION_TOKEN.path, take)


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
