"""Build the optional extension modules; a machine without a C compiler installs the pure-Python engine alone.

`KAFKAWIRE_PURE=1` deliberately omits the extensions, so the wheel is the same for every platform. A free-threaded
Python gets none, because they rely on the global interpreter lock (docs/decisions/0036-free-threaded-python.md).
"""

import os
import sysconfig
from pathlib import Path

from setuptools import setup

#: Setuptools puts these after the CFLAGS of the environment; a sanitizer build must use only its own CFLAGS.
COMPILE_ARGUMENTS = [] if "CFLAGS" in os.environ else ["-O3", "-g0"]

PACKAGE = Path("src/kafkawire")


def extensions():
    """Return one extension per .pyx file, rebuilt when any of the extensions' source files has changed."""
    from Cython.Build import cythonize
    from setuptools import Extension

    sources = sorted(PACKAGE.glob("sdk/**/*.pyx"))
    included = sorted(str(path) for suffix in ("pxd", "pxi") for path in PACKAGE.glob(f"sdk/**/*.{suffix}"))
    built = cythonize(
        [
            Extension(
                ".".join(source.with_suffix("").relative_to("src").parts),
                [str(source)],
                depends=included,
                extra_compile_args=COMPILE_ARGUMENTS,
            )
            for source in sources
        ],
        language_level=3,
    )
    for extension in built:
        extension.optional = True  # set on the result: cythonize() drops the flag
    return built


is_pure = os.environ.get("KAFKAWIRE_PURE") or sysconfig.get_config_var("Py_GIL_DISABLED")

setup(
    ext_modules=[] if is_pure else extensions(),
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
)
