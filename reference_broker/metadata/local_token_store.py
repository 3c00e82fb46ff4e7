"""The delegation tokens of a single broker, in a file of its data directory.

    delegation-tokens     <token id>={"issueTimestamp":1700000000000,"owner":"User%3Aalice",…}

Changes are made in order, and take effect once durable.

Source: `DelegationTokenImage` in Apache Kafka, for what is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kafkawire.reference_broker.metadata.stored_entries import StoredEntries
from kafkawire.reference_broker.metadata.token_store import (
    Revise,
    TokenDone,
    TokenInformation,
    stored_token,
    token_of,
)
from kafkawire.reference_broker.storage.checkpoints import DELEGATION_TOKENS, DamagedFile
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.znodes import DELEGATION_TOKEN
from kafkawire.sdk.registry.content import DamagedZnode

__all__ = ["TOKENS_MAX", "LocalTokenStore"]

#: Maximum number of tokens, all of which are written on every change, in 50 ms.
TOKENS_MAX: Final = 2_000


class LocalTokenStore:
    """The delegation tokens of a broker; see `TokenStore`.

    A change fails with POLICY_VIOLATION if the file would become too large, and with KAFKA_STORAGE_ERROR if the disk
    fails.

    Args:
        directory: the directory that holds the file.

    Raises:
        DamagedFile: the file contains an entry that is not a token.
    """

    def __init__(self, directory: LogDirectory) -> None:
        self._tokens: dict[str, TokenInformation] = {}
        self.tokens: Mapping[str, TokenInformation] = self._tokens
        self.on_change: Callable[[str], None] = lambda token_id: None
        self.is_registry = False
        self.tokens_max = TOKENS_MAX
        self._stored = StoredEntries(directory, DELEGATION_TOKENS, "delegation tokens")
        self._tokens.update({name: self._read(name, text) for name, text in self._stored.entries.items()})

    def change(self, token_id: str, revise: Revise, done: TokenDone) -> None:
        revised: TokenInformation | None = None

        def entries(stored: Mapping[str, str]) -> Mapping[str, str]:
            nonlocal revised
            revised = revise(self._tokens.get(token_id))
            others = {name: text for name, text in stored.items() if name != token_id}
            if revised is None:
                return others
            return {**others, token_id: DELEGATION_TOKEN.encode(stored_token(revised)).decode()}

        def written(error: BrokerError | None) -> None:
            if error is None:
                if revised is None:
                    self._tokens.pop(token_id, None)
                else:
                    self._tokens[token_id] = revised
                self.on_change(token_id)
            done(error)

        self._stored.change(entries, written)

    def _read(self, name: str, text: str) -> TokenInformation:
        try:
            return token_of(DELEGATION_TOKEN.decode(text.encode()))
        except (DamagedZnode, ValueError) as error:
            raise DamagedFile(self._stored.path, f"the entry {name!r:.60} is not a delegation token: {error}") from None
