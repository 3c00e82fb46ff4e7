"""`KAFKAWIRE_ENGINE` selects the engine; the default is the extension, or the Python engine if there is no extension.

Method: start a fresh interpreter for each choice, including one in which the extension cannot be imported.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kafkawire.sdk.protocol.engines.selection import ENGINE, ENGINES, native

SHOW = "from kafkawire.sdk.protocol.engines import selection; print(selection.ENGINE, selection.native is not None)"
BLOCK = "import sys; sys.modules['kafkawire.sdk.protocol.engines.native'] = None; "


def run(code: str, choice: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KAFKAWIRE_ENGINE": choice}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


def test_this_process() -> None:
    assert ENGINE in ENGINES
    assert (native is None) == (ENGINE != "native")


@pytest.mark.parametrize("choice", ["python", "construct"])
def test_an_engine_of_choice(choice: str) -> None:
    assert run(SHOW, choice).stdout == f"{choice} False\n"


def test_python_where_there_is_no_extension() -> None:
    assert run(BLOCK + SHOW, "").stdout == "python False\n"


def test_the_extension_where_it_is_wanted_and_missing() -> None:
    assert "KAFKAWIRE_ENGINE='native': the extension has not been built" in run(BLOCK + SHOW, "native").stderr


def test_an_unknown_engine() -> None:
    assert "KAFKAWIRE_ENGINE='rust': expected one of native, python, construct" in run(SHOW, "rust").stderr


@pytest.mark.parametrize("choice", ["python", "construct"])
def test_messages_without_the_extension(choice: str) -> None:
    code = (
        "from kafkawire.sdk.protocol.codec import codec; from kafkawire.sdk.protocol.messages.fetch import *\n"
        "c = codec(FetchRequest, 12); m, end = c.decode(c.encode(FetchRequest(cluster_id='c')))\n"
        "print(c.engine, m, m.replica_state, end)"
    )
    expected = f"{choice} FetchRequest(cluster_id='c') FetchRequest.ReplicaState() "
    assert run(code, choice).stdout.startswith(expected)
