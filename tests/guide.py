"""The programs of the guide, and how they are run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

__all__ = ["GUIDE", "blocks", "run"]

GUIDE = Path(__file__).parents[1] / "docs" / "guide"


def blocks(page: str) -> list[str]:
    """Return the Python blocks of a page."""
    return re.findall(r"^```python\n(.*?)^```", (GUIDE / f"{page}.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)


def run(*arguments: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stdout + done.stderr
