"""Install Debian packages if this user may do so without a prompt.

This runs on the system's own Python, with nothing installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache

__all__ = ["can_install", "install_first", "may_install"]

_APT_GET = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--yes", "--quiet", "--no-install-recommends")


def may_install() -> bool:
    """Return whether this user can install packages, which requires root and apt-get."""
    return shutil.which("apt-get") is not None and os.geteuid() == 0


def can_install(package: str) -> bool:
    """Return whether this user may install `package` and this machine has a source for it."""
    return may_install() and _apt_get("install", "--simulate", package)


def install_first(*packages: str) -> bool:
    """Install the first of `packages` that can be installed; return whether there was one."""
    if not may_install():
        return False
    _update()
    return any(_apt_get("install", package) for package in packages)


@cache
def _update() -> None:
    _apt_get("update")


def _apt_get(*arguments: str) -> bool:
    command = [*_APT_GET, *arguments]
    return subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0
