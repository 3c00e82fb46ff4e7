"""A custom API: its schema, its messages, a broker that serves it and a client that calls it."""
