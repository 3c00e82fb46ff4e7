"""The repr of a client: its kind, servers, ids and state; short, and without secrets."""

from __future__ import annotations

from typing import Final, Literal

from kafkawire.sdk.client.options import ClientOptions
from kafkawire.sdk.protocol.values import shown

__all__ = ["State", "summary"]

State = Literal["new", "starting", "started", "closed"]

#: The most addresses that are shown, and the most characters of each: few names of hosts are longer.
_ADDRESSES: Final = 3
_ADDRESS_CHARACTERS: Final = 100

#: The options that tell clients apart; shown if they have a value.
_NAMES: Final = ("client_id", "group_id", "group_instance_id", "transactional_id")


def summary(client: object, options: ClientOptions | None, state: State, *, is_blocking: bool = False) -> str:
    """Return the repr of a client.

    Args:
        client: the client.
        options: its options; None if its constructor raised before it had them.
        state: its state.
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
