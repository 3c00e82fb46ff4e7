"""The consumer, which reads records alone or in a group."""
