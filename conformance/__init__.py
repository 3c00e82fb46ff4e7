"""The conformance suite: golden vectors for codecs, and requests and malformed frames for brokers."""
