"""The way of a request: one client's requests in order, answers that come later, errors."""
