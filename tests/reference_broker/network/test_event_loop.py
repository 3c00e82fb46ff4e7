"""The event loop has the requested type."""

from __future__ import annotations

import sys

import pytest

from kafkawire.reference_broker.network.event_loop import loop_factory
from kafkawire.sdk.errors import ConfigurationError


@pytest.mark.parametrize("name", ["asyncio", "uvloop"])
def test_each(name):
    pytest.importorskip(name)
    loop = loop_factory(name)()
    assert type(loop).__module__.partition(".")[0] == name
    loop.close()


def test_one_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvloop", None)
    with pytest.raises(ConfigurationError, match="uvloop is not installed; install it with pip"):
        loop_factory("uvloop")
