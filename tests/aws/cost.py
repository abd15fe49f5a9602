"""The cost of a first hour: an estimate from list prices and observations, not a bill."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from .hour import Hour, Ran

# Dollars, us-east-1's list prices without a free tier; most regions differ by less than a third.
CONTROL_PLANE_HOUR = 0.10  # https://aws.amazon.com/eks/pricing/
ADDRESS_HOUR = 0.005  # a public IPv4 address: https://aws.amazon.com/vpc/pricing/
VOLUME_HOUR = 20 * 0.08 / 730  # the 20 GiB gp3 of a node: https://aws.amazon.com/ebs/pricing/
EXPERIMENT_MINUTE = 0.10  # https://aws.amazon.com/fis/pricing/
# The price of nodeless by the hour, from docs/benchmarks/cost.md, with its alarms and metrics.
RUNNING_HOUR = (2.06 + 3.00) / 730
# The expected cost of an hour and a half: at most five small nodes at once.
EXPECTED_INSTANCE_DOLLARS = 0.50
EXPECTED_HOURS = 1.5


@dataclass(frozen=True)
class Line:
    """One line of the estimate; `dollars` is None where the price is unknown."""

    what: str
    dollars: float | None


def expected() -> float:
    """Dollars that are announced before anything is made."""
    hourly = CONTROL_PLANE_HOUR + RUNNING_HOUR + 5 * (ADDRESS_HOUR + VOLUME_HOUR)
    return EXPECTED_INSTANCE_DOLLARS + EXPECTED_HOURS * hourly + 3 * EXPERIMENT_MINUTE


def hours(begun: datetime | None, ended: datetime | None) -> float:
    """Hours between, up to now where there is no end."""
    if begun is None:
        return 0
    return ((ended or datetime.now(timezone.utc)) - begun).total_seconds() / 3600


def estimate(hour: Hour) -> list[Line]:
    """The lines. An instance is counted from its launch until it was last seen, at least a minute."""
    instance_hours = {id_: max(hours(ran.launched, ran.last_seen), 1 / 60) for id_, ran in hour.ran.items()}
    total = sum(instance_hours.values())
    cluster_hours = hours(hour.cluster_begun, hour.cluster_ended)
    lines = [Line(f"EKS control plane, {cluster_hours:.2f} h", cluster_hours * CONTROL_PLANE_HOUR)]
    prices: dict[tuple[str, str, bool], float | None] = {}
    for id_, ran in hour.ran.items():
        offering = (ran.instance_type, ran.zone, ran.spot)
        if offering not in prices:
            prices[offering] = price(hour, ran)
        known = prices[offering]
        kind = "spot" if ran.spot else "on-demand"
        lines.append(Line(f"{ran.instance_type} {kind} in {ran.zone}, {instance_hours[id_]:.2f} h", None if known is None else known * instance_hours[id_]))
    lines += [
        Line(f"public addresses and volumes of {len(hour.ran)} instances, {total:.2f} h", total * (ADDRESS_HOUR + VOLUME_HOUR)),
        Line("functions, tables, queues, logs, metrics and alarms, as docs/benchmarks/cost.md computes them", cluster_hours * RUNNING_HOUR),
        Line(f"AWS Fault Injection Service, about {hour.experiment_minutes} action-minutes", hour.experiment_minutes * EXPERIMENT_MINUTE),
        Line("NAT gateway: none, nodes are in public subnets", 0.0),
    ]
    return lines


def price(hour: Hour, ran: Ran) -> float | None:
    """Dollars an hour, from AWS; None where it does not state."""
    try:
        return spot_price(hour, ran) if ran.spot else on_demand_price(hour, ran)
    except (ClientError, BotoCoreError, KeyError, IndexError, ValueError):
        return None


def spot_price(hour: Hour, ran: Ran) -> float:
    """The spot price as it is now."""
    answer = hour.place.client("ec2").describe_spot_price_history(
        InstanceTypes=[ran.instance_type], AvailabilityZone=ran.zone, ProductDescriptions=["Linux/UNIX"], StartTime=datetime.now(timezone.utc)
    )
    return float(answer["SpotPriceHistory"][0]["SpotPrice"])


def on_demand_price(hour: Hour, ran: Ran) -> float:
    """The on-demand price of Linux with shared tenancy."""
    attributes = {
        "regionCode": hour.place.region, "instanceType": ran.instance_type, "operatingSystem": "Linux", "tenancy": "Shared",
        "preInstalledSw": "NA", "capacitystatus": "Used", "marketoption": "OnDemand",
    }  # fmt: skip
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in attributes.items()]
    answer = hour.place.client("pricing").get_products(ServiceCode="AmazonEC2", Filters=filters)
    product: dict[str, Any] = json.loads(answer["PriceList"][0])
    (term,) = product["terms"]["OnDemand"].values()
    (dimension,) = term["priceDimensions"].values()
    return float(dimension["pricePerUnit"]["USD"])
