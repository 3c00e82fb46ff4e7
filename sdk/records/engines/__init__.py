"""The three engines of the records: each reads batches, two of them also build them.

A file is named after its engine and its task: `native_builder.pxi` does in C what `python_builder.py` does without a
compiler. Several engines use the `shared_` files. `native.pyx` puts the extension together.
"""
