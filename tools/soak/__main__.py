"""`python -m tools.soak NAME [--seconds N] [--seed S] …`: run one soak, by calling the `main` of its module."""

from __future__ import annotations

import logging
import sys
from importlib import import_module

#: The soaks, by module name.
NAMES = ("cancels", "hostile", "kills", "leak", "load", "logins", "rebalance", "scale", "shares", "transactions")


def main(arguments: list[str]) -> int:
    """Run the soak named by the first argument with the other arguments, and return its exit status."""
    if not arguments or arguments[0] not in NAMES:
        print(f"usage: python -m tools.soak {{{','.join(NAMES)}}} [--seconds N] [--seed S] …", file=sys.stderr)
        return 2
    status: int = import_module(f"tools.soak.{arguments[0]}").main(arguments[1:])
    return status


if __name__ == "__main__":
    # Injected faults cause thousands of reports; show only those about a client that ends because of a defect.
    logging.getLogger("kafkawire").setLevel(logging.ERROR)
    for name in ("kafkawire.producer", "kafkawire.consumer"):  # callbacks and listeners raise on purpose
        logging.getLogger(name).setLevel(logging.CRITICAL)
    sys.exit(main(sys.argv[1:]))
