"""Build the optional extension modules; a machine without a compiler installs the pure-Python engine instead."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

#: CFLAGS of the environment, as a sanitizer build sets them, stand alone: setuptools puts these behind them.
COMPILE_ARGUMENTS = [] if "CFLAGS" in os.environ else ["-O3", "-g0"]

sources = sorted(Path("src/kafkawire").glob("sdk/*/engines/*.pyx"))
extensions = cythonize(
    [
        Extension(
            ".".join(source.with_suffix("").relative_to("src").parts),
            [str(source)],
            extra_compile_args=COMPILE_ARGUMENTS,
        )
        for source in sources
    ],
    language_level=3,
)
for extension in extensions:
    extension.optional = True  # set on the result: cythonize() drops the flag

setup(ext_modules=extensions)
