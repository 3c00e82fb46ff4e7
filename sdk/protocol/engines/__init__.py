"""The codec's three engines: each makes a `Program` from a layout, in the module named after the engine.

Each file name begins with the engine's name. The engines work differently: `python` generates code, `native` interprets
the layout, `construct` declares it. Files named `shared_…` are used by more than one engine.
"""
