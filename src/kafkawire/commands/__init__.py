"""The commands of `kafkawire`: one folder for each family of commands, and the modules that they share.

The module of a command has the command's name and a function `run`. `main.py` lists all commands, and loads a command's
module only when the command is called.
"""
