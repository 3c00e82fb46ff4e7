"""`kafkawire groups`: groups of consumers, and their offsets."""
