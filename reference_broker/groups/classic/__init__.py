"""Classic groups: the leader computes the assignment, and the coordinator tracks the members."""
