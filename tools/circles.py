"""Find import cycles: modules that import each other, directly or indirectly.

`python -m tools.circles` prints one line per cycle and exits with 1 if there is one. Imports inside functions and for
type checkers are included: they merely hide a cycle from Python, and a reader who begins with one of its modules still
needs all of them. `make layers` runs this tool after import-linter, whose graph it reads.
"""

from __future__ import annotations

import sys

import grimp

__all__ = ["circles"]

PACKAGE = "kafkawire"


def circles(package: str = PACKAGE) -> list[tuple[str, ...]]:
    """Return the shortest cycle through each import that is part of one; each cycle is returned once.

    Args:
        package: an importable package.

    Returns:
        For each cycle, the modules in the order in which they import each other; the last one imports the first.
    """
    graph = grimp.build_graph(package, exclude_type_checking_imports=False, cache_dir=None)
    found = set()
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            if back := graph.find_shortest_chain(imported, importer):
                first = back.index(min(back))
                found.add((*back[first:], *back[:first]))
    return sorted(found)


def main() -> int:
    """Print the cycles, and return the exit status."""
    found = circles()
    for circle in found:
        print(" -> ".join((*circle, circle[0])))
    print(f"circles of imports: {len(found)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
