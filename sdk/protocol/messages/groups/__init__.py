"""Messages of schemas/groups."""
