"""The readers of `kafkawire dump`, one module for each kind of file, and the output that they share."""
