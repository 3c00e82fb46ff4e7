"""Build the optional extension modules; a machine without a compiler installs the pure-Python twins instead."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

modules = sorted(Path("src/kafkawire").glob("sdk/*/_native*.pyx"))
extensions = cythonize(
    [
        Extension(
            ".".join(path.with_suffix("").relative_to("src").parts),
            [str(path)],
            extra_compile_args=["-O3", "-g0"],
        )
        for path in modules
    ],
    language_level=3,
)
for extension in extensions:
    extension.optional = True  # set on the result: cythonize() drops the flag

setup(ext_modules=extensions)
