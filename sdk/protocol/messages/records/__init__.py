"""Messages of schemas/records."""
