"""The files of a log: batches, and the indexes that find them."""
