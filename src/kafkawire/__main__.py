"""Run the command `kafkawire` as `python -m kafkawire`."""

from kafkawire.commands.main import main

if __name__ == "__main__":
    raise SystemExit(main())
