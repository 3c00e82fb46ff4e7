"""Transactions of a producer: the machine that begins and ends them, and those that outlive their producer."""
