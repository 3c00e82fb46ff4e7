"""The three engines of the codec: each makes a `Program` from a layout, in the module of its name.

The names of an engine's files begin with its name. The engines have different parts: `python` generates code, `native`
interprets, `construct` declares. Several engines use the `shared_` files.
"""
