"""What the repr of a client says: what it is, whose, and how far it is; no secrets, and never much."""

from __future__ import annotations

from typing import Final, Literal

from kafkawire.sdk.client.options import ClientOptions
from kafkawire.sdk.protocol.values import shown

__all__ = ["State", "summary"]

State = Literal["new", "starting", "started", "closed"]

#: So many addresses are shown, and so much of each: few names of hosts are longer.
_ADDRESSES: Final = 3
_ADDRESS_CHARACTERS: Final = 100

#: What says whose a client is, if it has the option and a value.
_NAMES: Final = ("client_id", "group_id", "group_instance_id", "transactional_id")


def summary(client: object, options: ClientOptions | None, state: State, *, is_blocking: bool = False) -> str:
    """Return the repr of a client.

    Args:
        client: which one.
        options: of the client; None if its constructor has not come so far, as in a traceback.
        state: how far it is.
        is_blocking: whether it is one of `kafkawire.sync`.
    """
    kind = f"{'blocking ' * is_blocking}{type(client).__name__[:_ADDRESS_CHARACTERS]}"
    if options is None:
        return f"<{kind}, not made>"
    first = ",".join(str(address)[:_ADDRESS_CHARACTERS] for address in options.bootstrap_servers[:_ADDRESSES])
    more = f" and {len(options.bootstrap_servers) - _ADDRESSES} more" * (len(options.bootstrap_servers) > _ADDRESSES)
    names = [(name, getattr(options, name, None)) for name in _NAMES]
    named = ", ".join(f"{name}={shown(value)}" for name, value in names if value is not None)
    return f"<{kind} of {first}{more}, {named}, {state}>"
