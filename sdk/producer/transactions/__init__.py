"""Transactions of a producer: the machine that begins and ends them, and what the application holds of one."""
