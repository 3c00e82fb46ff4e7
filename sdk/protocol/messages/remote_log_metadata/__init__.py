"""Messages of schemas/remote_log_metadata."""
