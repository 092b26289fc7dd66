"""Answers about a run while it changes: over HTTP (`rae serve`) and for assistants (`rae mcp`)."""
