# Every command that a developer needs; CI runs the same ones.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: venv
venv: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml setup.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@
