"""`kafkawire groups`: consumer groups and their offsets."""
