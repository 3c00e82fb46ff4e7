"""Which producers a log knows, for duplicates and transactions."""
