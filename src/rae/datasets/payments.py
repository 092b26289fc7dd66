"""A table of payments between accounts, with planted rings, mules, collectors and spreaders.

Everyday life: people pay merchants by card, employers pay salaries, tenants pay landlords, friends send each other
money. In between stand schemes that are made of the same payments:

    mule        gets money from strangers and passes nearly all of it on to one collector
    collector   gets large sums from its mules and pays out to one or two accounts
    spreader    pays out the same total to many new accounts
    ring        members pass one sum round a circle, a little less at each step

Accounts in a scheme also make everyday payments, and a merchant has as many partners as a collector: who pays whom,
and how much, is what tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rae.datasets.dataset import Dataset, Labels
from rae.datasets.options import fraction, whole_number
from rae.graph import Graph
from rae.runtime import generator

Ints = np.ndarray[Any, np.dtype[np.int64]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]

ROLES = ("person", "merchant", "employer", "landlord", "mule", "collector", "spreader", "ring")
SCHEMES = ("mule", "collector", "spreader", "ring")
KINDS = ("card", "salary", "transfer", "wire")
PER_ACCOUNT = 12  # payments, on average
MULES, PAYERS = 6, 5  # of a collector, and of a mule, on average
SPREAD, RING = 14, 6  # accounts that a spreader pays, and members of a ring, on average
MONTHS = 3
START = np.datetime64("2026-07-01T00:00:00", "s")
SECONDS = MONTHS * 30 * 86_400


@dataclass(frozen=True, eq=False)
class Transactions:
    """The payments, one a row, and the role of each account."""

    table: pa.Table  # sender, receiver, amount, type, timestamp
    accounts: pa.Table  # account, role

    def __repr__(self) -> str:
        return f"Transactions(rows={self.table.num_rows:,}, accounts={self.accounts.num_rows:,})"


class _Payments:
    """Payments that are added scheme by scheme."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.parts = rng, list[tuple[Ints, Ints, Doubles, Ints, Doubles]]()

    def add(self, sender: Any, receiver: Any, amount: Any, kind: str, time: Any = None) -> None:
        """Payments of one kind; times are spread over all months where none are given."""
        sender, receiver = np.asarray(sender, np.int64), np.asarray(receiver, np.int64)
        time = self.rng.random(len(sender)) * SECONDS if time is None else time
        kinds = np.full(len(sender), KINDS.index(kind))
        self.parts.append((sender, receiver, np.broadcast_to(amount, sender.shape), kinds, time))

    def amounts(self, typical: float, spread: float, count: int) -> Doubles:
        """Sums of money: most near the typical one, a few much larger."""
        return np.asarray(typical * np.exp(spread * self.rng.normal(size=count)))


def transactions(*, n_rows: int = 20_000, schemes: float = 0.03, seed: int = 0) -> Transactions:
    """A table of about so many payments, in order of time, and the accounts with their roles.

    A share `schemes` of the accounts is in one.

    >>> transactions(n_rows=1000)
    Transactions(rows=1,000, accounts=84)
    """
    rows, seed = whole_number("n_rows", n_rows, 500), whole_number("seed", seed, 0)
    share = fraction("schemes", schemes)
    rng = generator(seed, "datasets", "transactions")
    n = -(-rows // PER_ACCOUNT)
    labels = _roles(n, share, rng)
    of_role = {role: np.flatnonzero(labels == ROLES.index(role)) for role in ROLES}
    pay = _Payments(rng)
    _schemes(pay, of_role, n)
    planted = sum(len(part[0]) for part in pay.parts)
    _everyday(pay, of_role, n, max(0, rows - planted))
    sender, receiver, amount, kind, time = (np.concatenate(column) for column in zip(*pay.parts, strict=True))
    order = np.argsort(time, kind="stable")[: max(rows, planted)]
    names = pa.array([f"A{number:07}" for number in rng.permutation(10 * n)[:n]])
    table = pa.table(
        {
            "sender": names.take(pa.array(sender[order])),
            "receiver": names.take(pa.array(receiver[order])),
            "amount": np.maximum(np.round(amount[order], 2), 0.01),
            "type": pa.array(KINDS).take(pa.array(kind[order])),
            "timestamp": pa.array(START + time[order].astype("timedelta64[s]")),
        }
    )
    accounts = pa.table({"account": names, "role": pa.array(ROLES).take(pa.array(labels))})
    return Transactions(table, accounts)


def load(*, n_rows: int = 20_000, schemes: float = 0.03, seed: int = 0) -> Dataset:
    """The graph of `transactions`, directed and weighted, with the role of each account as its label."""
    payments = transactions(n_rows=n_rows, schemes=schemes, seed=seed)
    ids = payments.accounts["account"]
    graph = Graph.from_dataframe(payments.table, weight="amount", directed=True, kind="type", ids=ids)
    roles = {role: i for i, role in enumerate(ROLES)}
    labels: Labels = np.array([roles[role] for role in payments.accounts["role"].to_pylist()])
    return Dataset("transactions", graph, None, None, labels, ROLES)


def _roles(n: int, share: float, rng: np.random.Generator) -> Labels:
    """The role of each account: those of schemes first, as whole schemes, then merchants, employers and landlords."""
    in_schemes = round(share * n)
    each = max(1, in_schemes // 3) if in_schemes else 0  # accounts of each of the three schemes
    collectors = -(-each // (MULES + 1))
    counts = {
        "collector": collectors,
        "mule": max(each - collectors, 2 * collectors),
        "spreader": max(1, each // 4) if each else 0,
        "ring": max(3, each) if each else 0,
        "merchant": max(2, n // 40),
        "employer": max(1, n // 150),
        "landlord": max(1, n // 100),
    }
    labels = np.zeros(n, np.int64)
    names = np.repeat([ROLES.index(role) for role in counts], list(counts.values()))
    labels[rng.permutation(n)[: len(names)]] = names
    return labels


def _schemes(pay: _Payments, of_role: dict[str, Ints], n: int) -> None:
    """The payments of the schemes."""
    rng = pay.rng
    collectors, mules = of_role["collector"], of_role["mule"]
    for collector, own in zip(collectors, np.array_split(mules, max(1, len(collectors))), strict=False):
        begins = rng.random(len(own)) * 0.7 * SECONDS
        for mule, start in zip(own, begins, strict=True):
            payers = rng.integers(n, size=1 + rng.poisson(PAYERS - 1))
            amounts_in = pay.amounts(400, 0.6, len(payers))
            times = start + rng.random(len(payers)) * 10 * 86_400
            pay.add(payers, np.full(len(payers), mule), amounts_in, "transfer", times)
            parts = 1 + int(rng.integers(2))
            passed = amounts_in.sum() * rng.uniform(0.9, 0.97) * rng.dirichlet(np.full(parts, 5.0))
            pay.add([mule] * parts, [collector] * parts, passed, "wire", times.max() + rng.random(parts) * 2 * 86_400)
        out = 1 + int(rng.integers(2))
        total = 400 * PAYERS * max(len(own), 1) * rng.uniform(0.7, 0.95)
        pay.add([collector] * out, rng.integers(n, size=out), total * rng.dirichlet(np.full(out, 5.0)), "wire")
    for spreader in of_role["spreader"]:
        count = 4 + rng.poisson(SPREAD - 4)
        total = 400 * PAYERS * MULES * rng.uniform(0.6, 1.4)
        pay.add(rng.integers(n, size=2), [spreader] * 2, total * rng.dirichlet([5.0, 5.0]), "wire")
        amounts = 0.95 * total * rng.dirichlet(np.full(count, 8.0))
        pay.add([spreader] * count, rng.integers(n, size=count), amounts, "transfer")
    rings = of_role["ring"]
    for ring in np.array_split(rings, max(1, round(len(rings) / RING))) if len(rings) else ():
        rounds, start = 1 + int(rng.integers(3)), rng.random() * 0.6 * SECONDS
        for turn in range(rounds):
            sums = 2500 * np.exp(0.4 * rng.normal()) * 0.97 ** np.arange(len(ring))
            times = start + (turn * len(ring) + np.arange(len(ring))) * 86_400 * rng.uniform(0.3, 1.0)
            pay.add(ring, np.roll(ring, -1), sums, "transfer", times)


def _everyday(pay: _Payments, of_role: dict[str, Ints], n: int, rows: int) -> None:
    """So many everyday payments, of all accounts."""
    rng = pay.rng
    living = np.setdiff1d(np.arange(n), np.concatenate([of_role[r] for r in ("merchant", "employer")]))
    merchants, employers, landlords = of_role["merchant"], of_role["employer"], of_role["landlord"]
    cards, salaries, rents = (round(part * rows) for part in (0.52, 0.16, 0.06))
    busy = np.cumsum(rng.pareto(1.3, len(merchants)) + 0.2)  # merchants of very different sizes
    spending = rng.gamma(1.5, size=len(living))  # people, too
    active = np.cumsum(spending)
    who = living[np.searchsorted(active, rng.random(cards) * active[-1]).clip(max=len(living) - 1)]
    shop = merchants[np.searchsorted(busy, rng.random(cards) * busy[-1]).clip(max=len(merchants) - 1)]
    pay.add(who, shop, pay.amounts(35, 1.0, cards), "card")
    employed = rng.permutation(living)[: max(1, salaries // MONTHS)]
    boss = rng.choice(employers, len(employed))
    wage = pay.amounts(2300, 0.4, len(employed))
    for month in range(MONTHS):
        when = (30 * month + 28) * 86_400 + rng.random(len(employed)) * 3600
        pay.add(boss, employed, wage, "salary", when)
    tenants = rng.permutation(living)[: max(1, rents // MONTHS)]
    house, rent = rng.choice(landlords, len(tenants)), pay.amounts(750, 0.3, len(tenants))
    for month in range(MONTHS):
        when = (30 * month + 1) * 86_400 + rng.random(len(tenants)) * 86_400
        pay.add(tenants, house, rent, "transfer", when)
    left = max(0, rows - cards - MONTHS * (len(employed) + len(tenants)))
    among_firms = left // 8
    suppliers = rng.choice(np.concatenate([merchants, employers]), among_firms)
    pay.add(rng.choice(merchants, among_firms), suppliers, pay.amounts(900, 0.9, among_firms), "wire")
    friends = left - among_firms
    sender = living[np.searchsorted(active, rng.random(friends) * active[-1]).clip(max=len(living) - 1)]
    near = (np.searchsorted(living, sender) + rng.geometric(0.15, friends) * rng.choice([-1, 1], friends)) % len(living)
    other = np.where(rng.random(friends) < 0.8, living[near], rng.choice(living, friends))
    by_wire = rng.random(friends) < 0.15
    for kind, some in (("transfer", ~by_wire), ("wire", by_wire)):
        pay.add(sender[some], other[some], pay.amounts(60, 1.1, int(some.sum())), kind)
