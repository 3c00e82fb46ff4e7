"""The commands of `kafkawire`, in a room of their own; `main` lists them all."""
