"""Groups: how the members of a group share partitions, and how the group's offsets are committed."""
