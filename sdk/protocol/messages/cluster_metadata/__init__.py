"""Messages of schemas/cluster_metadata."""
