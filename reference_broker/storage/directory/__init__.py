"""A data directory: the folders and logs of its partitions, and its checkpoints."""
