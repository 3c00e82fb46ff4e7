"""The three engines of the codec: each makes a `Program` from a layout, in the module named after it.

Each file name begins with the engine's name. The engines work differently: `python` generates code, `native` interprets
the layout, `construct` declares it. The `shared_` files are used by more than one engine.
"""
