"""Classic groups: the leader makes the assignment, the coordinator tracks the members."""
