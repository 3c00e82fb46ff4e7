"""The conformance suite: golden vectors for codecs; requests and broken frames for brokers."""
