"""Long runs in bad weather: each counts what it promises, and fails if a count is wrong."""
