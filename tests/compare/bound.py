"""A lower bound of the price of nodes: the linear program that may launch fractions of nodes and split pods over them.

Every cluster that runs the pods satisfies its constraints, so no cluster costs less. It knows nothing of zones, spread and affinity, so for
pods with these it is further below what is possible.
"""

from __future__ import annotations

from collections.abc import Sequence

import highspy

Amounts = tuple[float, float, float]


def lower_bound(requested: Amounts, types: Sequence[tuple[Amounts, float]], daemons: Amounts) -> float:
    """The least dollars an hour for this sum of requests (CPUs, bytes, pods), with `types` as (allocatable, price) and the requests of
    DaemonSets on each node."""
    if not any(requested):
        return 0.0
    solver = highspy.Highs()
    solver.silent()
    counts = [solver.addVariable(lb=0.0, obj=price) for _, price in types]
    for resource, amount in enumerate(requested):
        if amount > 0:
            # Divided by what is requested, because bytes and CPUs differ by ten orders of magnitude.
            shares = [max(allocatable[resource] - daemons[resource], 0.0) / amount for allocatable, _ in types]
            solver.addConstr(solver.qsum(count * share for count, share in zip(counts, shares, strict=True)) >= 1.0)
    solver.minimize()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise ValueError(f"no lower bound for {requested}: {solver.modelStatusToString(solver.getModelStatus())}")
    return float(solver.getInfo().objective_function_value)
