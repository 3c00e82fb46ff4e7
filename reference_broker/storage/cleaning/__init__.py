"""What removes and compacts old records."""
