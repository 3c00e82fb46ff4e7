"""What clients tell the broker about themselves: the metrics that they push (KIP-714)."""
