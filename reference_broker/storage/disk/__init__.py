"""The disk interface, the machine's disk, and an in-memory disk that can lose or tear writes, fill up and fail."""
