"""The files of a log: batches, and the indexes for finding them."""
