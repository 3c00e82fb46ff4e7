"""Schemas as text, for tests that write them to files."""

API = """\
api: {name}
key: {key}
listeners: [broker]
request:
  versions: 0-1
  fields: []
response:
  versions: 0-1
  fields: []
"""
A = API.format(name="A", key=1)
