"""The three engines of the records: each reads batches, two of them also build them.

A file is named by its engine and by what it does: `native_builder.pxi` does in C what `python_builder.py` does without
a compiler. What is named `shared_` is used by more than one of them. `native.pyx` puts the extension together.
"""
