"""Classic groups: the members assign among themselves, the coordinator keeps them together."""
