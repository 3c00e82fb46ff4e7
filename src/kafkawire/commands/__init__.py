"""The commands of `kafkawire`: a folder for each family of commands, next to the modules that they share.

A command's module has the command's name and a function `run`; `main.py` lists all commands, and loads a command's
module only when the command is called.
"""
