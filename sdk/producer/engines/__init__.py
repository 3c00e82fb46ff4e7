"""The engines of `send`, side by side: `native` in C, `python` without a compiler."""
