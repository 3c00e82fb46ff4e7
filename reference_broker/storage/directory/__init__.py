"""A data directory: its topics, their logs, its checkpoints."""
