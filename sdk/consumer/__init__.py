"""The consumer: reads records, alone or in a group."""
