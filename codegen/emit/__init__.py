"""From spec to text."""
