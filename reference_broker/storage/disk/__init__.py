"""The disk as an interface: the machine's, and one in memory that loses, tears, fills and fails."""
