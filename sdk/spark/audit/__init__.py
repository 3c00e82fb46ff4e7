"""The audit of stored topics, which turns segments into tables of facts, and these into a report."""
