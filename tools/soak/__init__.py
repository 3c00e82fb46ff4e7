"""Long runs under load and faults: each counts what it promises, and fails if a count is wrong."""
