"""The disk interface, with the machine's disk, and one in memory that can lose, tear, run full and fail."""
