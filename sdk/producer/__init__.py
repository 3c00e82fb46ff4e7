"""Write records."""
