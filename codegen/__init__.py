"""Schemas in, generated modules out."""
