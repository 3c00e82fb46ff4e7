"""The commands of `kafkawire`: a folder for each family, with shared modules beside them.

A command's module has the command's name and a function `run`; `main.py` lists all commands and loads each when called.
"""
