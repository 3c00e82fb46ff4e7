"""The commands of `kafkawire`: a folder for each family, and what all of them share beside these folders.

A command's module has the command's name and a function `run`; `main.py` lists it and loads it when it is called.
"""
