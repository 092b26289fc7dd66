"""The command `rae`: flags in, words out; the work is in the library. Each command imports what it needs."""

from rae.cli.program import app, main

__all__ = ["app", "main"]
