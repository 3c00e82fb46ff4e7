"""Messages, their codecs, frames and the sans-I/O connection."""
