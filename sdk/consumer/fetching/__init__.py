"""The I/O side of a consumer, which sends fetches to brokers and handles the responses."""
