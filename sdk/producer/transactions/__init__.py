"""Transactions of a producer: the machine that begins and ends them, and transactions that outlive their producer."""
