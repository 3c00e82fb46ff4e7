"""Choose the engine that decodes and encodes: `native`, `python` or `construct`.

`KAFKAWIRE_ENGINE` selects one by name; without it, the extension is used if it was built, and otherwise the Python
engine. All three give the same results; tests compare them.
"""

from __future__ import annotations

import os
from types import ModuleType

from kafkawire.sdk.errors import ConfigurationError

__all__ = ["ENGINE", "ENGINES", "native"]

ENGINES = ("native", "python", "construct")

_VARIABLE = "KAFKAWIRE_ENGINE"


def _select() -> tuple[str, ModuleType | None]:
    wanted = os.environ.get(_VARIABLE, "")
    if wanted and wanted not in ENGINES:
        raise ConfigurationError(_VARIABLE, wanted, f"expected one of {', '.join(ENGINES)}")
    if wanted in ("python", "construct"):
        return wanted, None
    try:
        from kafkawire.sdk.protocol.engines import native as built
    except ImportError as error:
        if wanted == "native":
            raise ConfigurationError(_VARIABLE, wanted, "the extension has not been built") from error
        return "python", None
    return "native", built


#: The engine in use by default: one of `ENGINES`.
ENGINE: str
#: The extension module of the codec, or None if it was not built or another engine was selected.
native: ModuleType | None
ENGINE, native = _select()
