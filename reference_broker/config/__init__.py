"""Configurations of a broker and its topics."""
