"""A blocking client runs on an I/O thread, and rejects options that ask for anything else."""

from __future__ import annotations

import pytest

from kafkawire.errors import ConfigurationError
from kafkawire.sync import Admin, Consumer, Producer


@pytest.mark.parametrize("kind", [Admin, Consumer, Producer])
def test_only_a_thread(kind: type[Admin] | type[Consumer] | type[Producer]) -> None:
    kind("a:1", io="thread")
    with pytest.raises(ConfigurationError, match=r"io.*loop.*a blocking client has no event loop"):
        kind("a:1", io="loop")
