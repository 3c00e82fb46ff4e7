"""`kafkawire demo`: the main features in one run."""
