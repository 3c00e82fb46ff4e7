"""The three engines of the codec: each gives a `Program` for a layout, in the module of its name.

The parts of an engine begin with its name. Their parts differ, as the engines do: `python` writes code, `native`
interprets, `construct` declares. What is named `shared_` is used by more than one of them.
"""
