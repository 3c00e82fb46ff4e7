"""The audit of stored topics: from segments to tables of facts, and from those to a report."""
