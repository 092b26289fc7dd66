"""Roles in an embedding: their number, the memberships of every node, a card per role, and comparisons."""

from rae.roles.cards import Card
from rae.roles.labels import LabelTable
from rae.roles.model import Assignment, Roles

__all__ = ["Assignment", "Card", "LabelTable", "Roles"]
