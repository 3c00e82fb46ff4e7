"""Consumers of share groups (KIP-932): their fetches and acknowledgements, and the records that they hand out."""
