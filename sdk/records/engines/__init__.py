"""The three engines of the records, side by side: each reads batches, two of them also build them."""
