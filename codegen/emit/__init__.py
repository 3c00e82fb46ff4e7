"""Turn specs into text."""
