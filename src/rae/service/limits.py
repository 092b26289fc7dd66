"""Limits of requests, which the command line and the gate read."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What one request may take, and how many there may be at once."""

    body: int = 1_000_000  # bytes
    seconds: float = 30.0  # until the body of a request is here
    requests: int = 64  # that are being answered; as many whose bodies are on their way
    updates: int = 8  # that are being written or wait; as many questions that take long
