"""A data directory: the folders and the logs of its partitions, its checkpoints."""
