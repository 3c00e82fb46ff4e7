"""The three engines of the codec, side by side: each gives a `Program` for a layout."""
