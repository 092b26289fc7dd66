"""Roles in an embedding: how many, who plays which, what its members have in common, who moved."""

from rae.roles.cards import Card
from rae.roles.fitted import Assignment, Roles

__all__ = ["Assignment", "Card", "Roles"]
