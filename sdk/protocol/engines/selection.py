"""Choose the engine that decodes and encodes: `native`, `python` or `construct`.

`KAFKAWIRE_ENGINE` selects one by name; without it the compiled extension is used where it was built, the Python engine
elsewhere. All three give equal results; the test suite compares them.

The extension works under the global interpreter lock. A free-threaded Python turns that on when it loads the extension,
which is said once; where the user keeps the lock off, the extension is not loaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

from kafkawire.sdk.errors import ConfigurationError

__all__ = ["ENGINE", "ENGINES", "load", "native"]

ENGINES = ("native", "python", "construct")

_VARIABLE = "KAFKAWIRE_ENGINE"

_LOCK_TURNED_ON = (
    "kafkawire's extension turns on the global interpreter lock of this free-threaded Python, for the whole program; "
    f"{_VARIABLE}=python leaves it off: the same results, but slower"
)


def load(name: str, *, wanted: bool) -> ModuleType | None:
    """Return a module of the extension, None if it was not built or cannot be used.

    Args:
        name: the whole name of the module.
        wanted: whether the native engine was chosen. If not, the module is for calls that name an engine, and is not
            loaded where it would turn on the lock.
    """
    is_free = not _has_lock()
    if is_free and (not wanted or _is_lock_kept_off()):
        return None
    try:
        return _load_aloud(name) if is_free else import_module(name)
    except ImportError:
        return None


def _load_aloud(name: str) -> ModuleType:
    """Load a module where the lock is off, and say that this turned it on: Python does not tell the way out."""
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The global interpreter lock", RuntimeWarning)
        module = import_module(name)
    if _has_lock():
        warnings.warn(_LOCK_TURNED_ON, RuntimeWarning, stacklevel=3)
    return module


def _has_lock() -> bool:
    is_enabled: Callable[[], bool] | None = getattr(sys, "_is_gil_enabled", None)  # from Python 3.13 on
    return is_enabled is None or is_enabled()


def _is_lock_kept_off() -> bool:
    """Return whether the user keeps the lock off, by PYTHON_GIL=0 or -X gil=0, whatever a module needs."""
    return getattr(sys.flags, "gil", None) == 0


def _select() -> tuple[str, ModuleType | None]:
    wanted = os.environ.get(_VARIABLE, "")
    if wanted and wanted not in ENGINES:
        raise ConfigurationError(_VARIABLE, wanted, f"expected one of {', '.join(ENGINES)}")
    if wanted in ("python", "construct"):
        return wanted, None
    built = load("kafkawire.sdk.protocol.engines.native", wanted=True)
    if built is not None:
        return "native", built
    if wanted == "native":
        is_kept_off = not _has_lock() and _is_lock_kept_off()
        reason = "it needs the global interpreter lock, which PYTHON_GIL or -X gil keeps off"
        raise ConfigurationError(_VARIABLE, wanted, reason if is_kept_off else "the extension is not built here")
    return "python", None


#: The engine in use by default: one of `ENGINES`.
ENGINE: str
#: The extension module of the codec, or None where it was not built or not wanted.
native: ModuleType | None
ENGINE, native = _select()
