"""The instance types of both sides: those of `nodeless catalog show`, as the file that Karpenter's kwok provider reads.

The types are filtered once, here, so that a NodePool of Karpenter needs no labels of AWS, which the kwok provider does not have; the NodePool
of nodeless has the same conditions as requirements (`REQUIREMENTS`). `differences` checks on running nodes that both sides see the same.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

Json = dict[str, Any]

LABELS = "karpenter.k8s.aws"
# As in the NodePool of Karpenter's "Getting started".
CATEGORIES = ("c", "m", "r")
NEWER_THAN = 2
ARCHITECTURE = "amd64"
REQUIREMENTS = [
    {"key": f"{LABELS}/instance-category", "operator": "In", "values": list(CATEGORIES)},
    {"key": f"{LABELS}/instance-generation", "operator": "Gt", "values": [str(NEWER_THAN)]},
]
# What the kwok provider subtracts from the capacity of every type (kwok/cloudprovider/helpers.go, newInstanceType).
OVERHEAD = {"cpu": Fraction(1, 10), "memory": Fraction(10 * 2**20)}
RESOURCES = ("cpu", "memory", "pods", "ephemeral-storage")
SUFFIXES = {"": 1, "m": Fraction(1, 1000), "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def quantity(text: str | int) -> Fraction:
    """The value of a Kubernetes quantity."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([a-zA-Z]*)", str(text))
    if found is None or found.group(2) not in SUFFIXES:
        raise ValueError(f"{text!r} is no quantity of the comparison")
    return Fraction(found.group(1)) * SUFFIXES[found.group(2)]


def instance_types(nodeless: Path) -> list[Json]:
    """The types that both sides may launch, as `nodeless catalog show -o json` prints them."""
    shown = subprocess.run([nodeless, "catalog", "show", "-o", "json"], stdout=subprocess.PIPE, text=True, check=True)
    return [kind for kind in json.loads(shown.stdout) if allowed(kind["labels"])]


def allowed(labels: dict[str, str]) -> bool:
    generation = labels.get(f"{LABELS}/instance-generation", "0")
    return (
        labels.get("kubernetes.io/arch") == ARCHITECTURE
        and labels.get(f"{LABELS}/instance-category") in CATEGORIES
        and generation.isdecimal()
        and int(generation) > NEWER_THAN
    )


def kwok_types(types: Iterable[Json]) -> list[Json]:
    """The same types for the kwok provider: with the overhead that it subtracts, so that the allocatable resources are the same."""
    return [kwok_type(kind) for kind in types]


def kwok_type(kind: Json) -> Json:
    resources = {name: written(quantity(kind["allocatable"][name]) + OVERHEAD.get(name, 0)) for name in RESOURCES}
    offerings = [
        {
            "Price": offering["pricePerHour"],
            "Available": True,
            "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [offering["capacityType"]]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [offering["zone"]]},
            ],
        }
        for offering in kind["offerings"]
    ]
    return {"name": kind["name"], "offerings": offerings, "architecture": ARCHITECTURE, "operatingSystems": ["linux"], "resources": resources}


def written(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else f"{value * 1000}m"


def prices(types: Iterable[Json]) -> dict[str, float]:
    """Dollars an hour, by `TYPE ZONE CAPACITY-TYPE`."""
    return {f"{kind['name']} {o['zone']} {o['capacityType']}": o["pricePerHour"] for kind in types for o in kind["offerings"]}


def allocatable(types: Iterable[Json]) -> dict[str, dict[str, float]]:
    """The allocatable resources of each type, in CPUs, bytes and pods."""
    return {kind["name"]: {name: float(quantity(kind["allocatable"][name])) for name in ("cpu", "memory", "pods")} for kind in types}


def differences(node: Json, known: dict[str, dict[str, float]]) -> list[str]:
    """How a Node differs from the type of its label: nothing, unless the two sides do not see the same types."""
    kind = node["metadata"]["labels"]["node.kubernetes.io/instance-type"]
    if kind not in known:
        return [f"{kind} is none of the types that were given"]
    found = {name: float(quantity(node["status"]["allocatable"][name])) for name in ("cpu", "memory", "pods")}
    return [f"{kind}: {name} is {found[name]}, not {value}" for name, value in known[kind].items() if found[name] != value]
