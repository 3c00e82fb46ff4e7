"""Group coordinator."""
