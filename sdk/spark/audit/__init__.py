"""The audit of stored topics: from segments to tables of facts, and to a report about them."""
