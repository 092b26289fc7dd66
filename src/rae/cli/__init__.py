"""The command `rae`: fit, embed, info, plan, demo. Light to import; each command imports what it needs."""

from rae.cli.program import app, main

__all__ = ["app", "main"]
