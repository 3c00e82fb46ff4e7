"""The topics and configurations of a cluster, and changes to them."""
