"""`python -m tools.soak NAME [--seconds N] [--seed S] …`: run one soak; each module of this package has a `main`."""

from __future__ import annotations

import logging
import sys
from importlib import import_module

#: The soaks, by the names of their modules.
NAMES = ("cancels", "hostile", "kills", "leak", "load", "rebalance", "scale", "transactions")


def main(arguments: list[str]) -> int:
    """Run the soak that the first argument names, with the others, and return its exit status."""
    if not arguments or arguments[0] not in NAMES:
        print(f"usage: python -m tools.soak {{{','.join(NAMES)}}} [--seconds N] [--seed S] …", file=sys.stderr)
        return 2
    status: int = import_module(f"tools.soak.{arguments[0]}").main(arguments[1:])
    return status


if __name__ == "__main__":
    # The weather is reported by the thousand; a client that has ended because of a defect is heard of.
    logging.getLogger("kafkawire").setLevel(logging.ERROR)
    for name in ("kafkawire.producer", "kafkawire.consumer"):  # callbacks and listeners raise as planned
        logging.getLogger(name).setLevel(logging.CRITICAL)
    sys.exit(main(sys.argv[1:]))
