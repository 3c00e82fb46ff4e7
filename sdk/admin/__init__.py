"""Look after topics, groups and configuration."""
