"""State machines of a client, without I/O."""
