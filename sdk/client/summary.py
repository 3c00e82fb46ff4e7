"""Build the repr of a client from its kind, servers, ids and state, without secrets."""

from __future__ import annotations

from typing import Final, Literal

from kafkawire.sdk.client.options import ClientOptions
from kafkawire.sdk.errors import Closed
from kafkawire.sdk.protocol.values import shown

__all__ = ["State", "blocking_summary", "not_running", "summary"]

State = Literal["new", "starting", "started", "closed"]

#: The maximum number of addresses shown, and the maximum length of each: few host names are longer.
_ADDRESSES: Final = 3
_ADDRESS_CHARACTERS: Final = 100

#: The options that distinguish clients; shown if they have a value.
_NAMES: Final = ("client_id", "group_id", "group_instance_id", "transactional_id")


def summary(client: object, options: ClientOptions | None, state: State, kind: str = "") -> str:
    """Return the repr of a client.

    Args:
        client: the client.
        options: its options; None if its constructor raised before setting them.
        state: its state.
        kind: precedes the name of its class.
    """
    kind += type(client).__name__[:_ADDRESS_CHARACTERS]
    if options is None:
        return f"<{kind}, not made>"
    first = ",".join(str(address)[:_ADDRESS_CHARACTERS] for address in options.bootstrap_servers[:_ADDRESSES])
    more = f" and {len(options.bootstrap_servers) - _ADDRESSES} more" * (len(options.bootstrap_servers) > _ADDRESSES)
    names = [(name, getattr(options, name, None)) for name in _NAMES]
    named = ", ".join(f"{name}={shown(value)}" for name, value in names if value is not None)
    return f"<{kind} of {first}{more}, {named}, {state}>"


def blocking_summary(client: object) -> str:
    """Return the repr of a client of `kafkawire.sync`, whose `_inner` client has the options and the state."""
    inner = getattr(client, "_inner", None)  # None if the constructor raised
    known: tuple[ClientOptions | None, State] = (None, "new") if inner is None else inner._state()
    return summary(client, *known, "blocking ")


def not_running(client: str, *, is_closed: bool) -> Closed:
    """Return the error of a call to a client that does not run.

    Args:
        client: the kind of client, such as `producer`.
        is_closed: whether it was closed; if not, it was not started.
    """
    if is_closed:
        return Closed(f"the {client} is closed; create a new one")
    return Closed(f"the {client} is not started: use `async with` (`with` in kafkawire.sync), or call start()")
