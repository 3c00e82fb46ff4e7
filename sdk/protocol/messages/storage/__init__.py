"""Messages of schemas/storage."""
