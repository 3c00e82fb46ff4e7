"""The I/O side of a consumer: which broker is asked for what, and what becomes of the responses."""
