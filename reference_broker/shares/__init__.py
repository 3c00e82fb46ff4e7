"""Share groups (KIP-932): the delivery state of share partitions, where it is stored, and share sessions."""
