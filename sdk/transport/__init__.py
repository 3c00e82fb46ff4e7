"""The files that touch sockets and clocks."""
