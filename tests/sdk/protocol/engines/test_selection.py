"""`KAFKAWIRE_ENGINE` selects the engine; without it the extension is used where it is, the Python engine elsewhere.

Method: a fresh interpreter for each choice, also one in which the extension cannot be imported, and one that behaves
as a free-threaded Python: its lock is off until the extension is loaded, for which a module without content stands.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kafkawire.sdk.protocol.engines.selection import ENGINE, ENGINES, native

SHOW = "from kafkawire.sdk.protocol.engines import selection; print(selection.ENGINE, selection.native is not None)"
BLOCK = "import sys; sys.modules['kafkawire.sdk.protocol.engines.native'] = None; "


#: Python warns, too, and `FLAG` is what the user says of the lock: 0 keeps it off.
FREE_THREADED = """
import sys, warnings
from importlib.machinery import ModuleSpec

class Flags:
    gil = FLAG
    def __getattr__(self, name, real=sys.flags):
        return getattr(real, name)

class Extension:
    lock = False

    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self) if name.endswith(".engines.native") else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        if sys.flags.gil != 0 and not Extension.lock:
            Extension.lock = True
            warnings.warn(f"The global interpreter lock (GIL) has been enabled to load {module}", RuntimeWarning)

sys.flags, sys._is_gil_enabled = Flags(), lambda: Extension.lock
sys.meta_path.insert(0, Extension())
from kafkawire.sdk.producer.engines import selection as producer
print(Extension.lock, producer.built is not None, producer.native is not None)
"""

WARNING = (
    "RuntimeWarning: kafkawire's extension turns on the global interpreter lock of this free-threaded Python, for the "
    "whole program; KAFKAWIRE_ENGINE=python leaves it off: the same results, but slower\n"
)


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
    assert "KAFKAWIRE_ENGINE='native': the extension is not built here" in run(BLOCK + SHOW, "native").stderr


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


@pytest.mark.parametrize(
    ("choice", "flag", "expected"),
    [
        ("", "None", "native True True True True"),
        ("native", "None", "native True True True True"),
        ("python", "None", "python False False False False"),
        ("construct", "None", "construct False False False False"),
        ("", "0", "python False False False False"),
    ],
)
def test_a_free_threaded_python(choice: str, flag: str, expected: str) -> None:
    """The extension turns the lock on, and says so once; nothing that was not asked for does."""
    found = run(FREE_THREADED.replace("FLAG", flag) + SHOW, choice)
    lock, built, producer, engine, protocol = found.stdout.split()
    assert f"{engine} {protocol} {lock} {built} {producer}" == expected, found.stderr
    assert found.stderr.count("Warning") == found.stderr.count(WARNING) == (engine == "native")


def test_the_extension_where_the_lock_is_kept_off() -> None:
    found = run(FREE_THREADED.replace("FLAG", "0") + SHOW, "native")
    assert "KAFKAWIRE_ENGINE='native': it needs the global interpreter lock, which PYTHON_GIL or -X gil" in found.stderr
