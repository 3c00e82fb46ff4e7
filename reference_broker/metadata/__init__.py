"""The topics and configurations of a cluster, and their changes."""
