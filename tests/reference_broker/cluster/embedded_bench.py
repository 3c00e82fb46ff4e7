"""An embedded registry for the registry suite, with a clock that stands still until a test moves it."""

from __future__ import annotations

from collections.abc import Sequence

from kafkawire.reference_broker.cluster.embedded_registry import EmbeddedRegistry, EmbeddedSession
from kafkawire.reference_broker.cluster.registry_journal import RegistryJournal
from kafkawire.reference_broker.storage.disk.disk import Disk
from kafkawire.reference_broker.work.background import Background, at_once
from kafkawire.sdk.registry.registry import Registry
from tests.sdk.registry.owner import Owner

__all__ = ["EmbeddedBench"]


class EmbeddedBench:
    """A registry, its owner and its clock.

    Args:
        disk: holds the journal; None for a registry without a journal.
        background: runs the journal's work.
    """

    def __init__(self, disk: Disk | None = None, background: Background = at_once) -> None:
        self.owner = Owner()
        self.now_ms = 1_000
        journal = None if disk is None else RegistryJournal(disk)
        self.embedded = EmbeddedRegistry(lambda: self.now_ms, journal, background)

    def registry(self, credentials: Sequence[tuple[str, str]] = ()) -> EmbeddedSession:
        session = self.embedded.session(self.owner.post, credentials=credentials)
        session.start()
        return session

    def expire(self, registry: Registry) -> None:
        self.embedded.expire(registry.session_id)
