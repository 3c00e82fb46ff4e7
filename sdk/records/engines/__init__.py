"""The three record engines: all of them read batches, and two of them also build batches.

A file is named after its engine and its task: `native_builder.pxi` does in C what `python_builder.py` does without a
compiler. Files named `shared_…` are used by more than one engine. `native.pyx` assembles the extension.
"""
