"""The three record engines: all of them read batches, and two also build them.

A file is named after its engine and its task: `native_builder.pxi` does in C what `python_builder.py` does without a
compiler. The `shared_` files are used by more than one engine. `native.pyx` assembles the extension.
"""
