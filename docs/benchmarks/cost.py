#!/usr/bin/env python3
"""Generates docs/benchmarks/cost.md from docs/benchmarks/measurements.json and AWS's list prices. `make cost` measures and then runs this."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
MINUTES = 60 * 24 * 30

# List prices of us-east-1 in dollars, without the free tier, 2026-11.
LAMBDA_REQUEST = 0.20 / 1e6
LAMBDA_GB_SECOND = 0.0000133334  # arm64
SQS_STANDARD = 0.40 / 1e6
SQS_FIFO = 0.50 / 1e6
DYNAMODB_READ = 0.125 / 1e6  # per request unit: 4 kB, strongly consistent
DYNAMODB_WRITE = 0.625 / 1e6  # per request unit: 1 kB
METRIC = 0.30
ALARM = 0.10
DASHBOARD = 3.00
LOGS_GB = 0.50

# Lambda keeps about five long polls of 20 seconds open on each queue, even if it is empty.
POLLS_A_MINUTE = 15
# Lambda gives a function of this memory one vCPU, and less in proportion:
# https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html
ONE_VCPU_MB = 1769
# The memory of the functions in MB (terraform/variables.tf), and the number of invocations in an idle month.
MEMORY = {"planner": 1024, "lifecycle": 1024, "catalog": 1024, "interruption": 256}
RUNS = {"planner": MINUTES, "lifecycle": MINUTES, "catalog": MINUTES / 5}
# Lambda writes the lines START, END and REPORT for each invocation, of about this size with the ids and times in them:
# https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-view.html
LAMBDA_LOG_BYTES = 310
# Assumed seconds that a call to AWS takes, by service, where the emulators answer within a millisecond.
LATENCIES = {"DynamoDB": 0.005, "Kubernetes": 0.03, "EC2": 0.1, "IAM": 0.1}
# The metrics that are published in every hour of an idle month (shared/operations/tests/operations/events.rs lists them); others are
# published only in hours with activity.
IDLE_METRICS = 3
# CloudWatch charges for each metric of an alarm: throttles has three, and errors, stale and wake-silent have two.
ALARMS = 18
ALARM_METRICS = 23
# Clusters that share functions have no alarms for errors and throttles (terraform/observability.tf).
SHARED_ALARMS = 16
SHARED_ALARM_METRICS = 18
# The clusters of one deployment: IAM attaches ten managed policies to a role (docs/design/many-clusters.md).
CLUSTERS_OF_A_DEPLOYMENT = 11
# The registration of a cluster in the table, rounded up. An execution environment that serves another cluster than its own reads all of
# them once a minute.
REGISTRATION_KB = 2

Size = dict[str, Any]


def billed_seconds(name: str, seconds: float, processor_seconds: float) -> float:
    """What Lambda bills: the processor time at the function's part of a vCPU, and the time that it waits for answers."""
    waiting = max(seconds - processor_seconds, 0.0)
    return waiting + processor_seconds * max(ONE_VCPU_MB / MEMORY[name], 1.0)


def invocations(name: str, count: float, seconds: float, processor_seconds: float) -> float:
    """Dollars for `count` invocations that took so long together."""
    return count * LAMBDA_REQUEST + billed_seconds(name, seconds, processor_seconds) * MEMORY[name] / 1024 * LAMBDA_GB_SECOND


def dynamodb(calls: dict[str, int]) -> float:
    """Dollars for what a measurement counted: what DynamoDB Local reports, and transactions by the sizes of their items."""
    reads = calls.get("DynamoDB consumed halves of read units", 0) / 2
    return reads * DYNAMODB_READ + calls.get("DynamoDB consumed write units", 0) * DYNAMODB_WRITE


def sqs_requests() -> tuple[float, float]:
    """The requests of an idle month to the two FIFO queues and to the two standard queues: the polls, and the messages of the schedules, sent
    and received."""
    polls = MINUTES * POLLS_A_MINUTE * 2
    return polls + MINUTES * 2 + MINUTES / 5 * 2, polls + MINUTES * 2


def idle_month(size: Size) -> dict[str, float]:
    """Dollars a month while nothing changes."""
    idle = size["idle"]
    lambdas = sum(runs * invocations(name, 1, idle[name]["seconds"], idle[name]["processorSeconds"]) for name, runs in RUNS.items())
    table = sum(runs * dynamodb(idle[name]["calls"]) for name, runs in RUNS.items())
    fifo, standard = sqs_requests()
    queues = fifo * SQS_FIFO + standard * SQS_STANDARD
    logs = sum(runs * (idle[name]["loggedBytes"] + LAMBDA_LOG_BYTES) for name, runs in RUNS.items()) / 1e9 * LOGS_GB
    waiting = sum(runs * invocations(name, 0, seconds_of_calls(idle[name]["calls"]), 0) for name, runs in RUNS.items())
    return {"lambda": lambdas, "dynamodb": table, "sqs": queues, "logs": logs, "total": lambdas + table + queues + logs, "waiting": waiting}


def seconds_of_calls(calls: dict[str, int]) -> float:
    """How long these calls take one after another by `LATENCIES`. Some of them are concurrent, so it is the most that they take."""
    return sum(count * LATENCIES[call.split()[0]] for call, count in calls.items() if not call.endswith("units"))


def small(size: Size) -> Size:
    """The size with so few nodes that each read of DynamoDB is one unit: the claims of a tenth of the nodes. A sweep that finds nothing
    to do reads the claims with its queries eventually consistently, for half a unit each; the time is that of more nodes."""

    def least(name: str, taken: dict[str, Any]) -> dict[str, Any]:
        calls = taken["calls"]
        one = 1 if name == "lifecycle" else 2
        halves = calls.get("DynamoDB GetItem", 0) * 2 + calls.get("DynamoDB Query", 0) * one
        return taken | {"calls": calls | {"DynamoDB consumed halves of read units": halves}}

    return size | {"nodes": size["nodes"] // 10, "pods": size["pods"] // 10, "idle": {name: least(name, size["idle"][name]) for name in RUNS}}


def reconnected(size: Size) -> float:
    """What a month of plans costs more if each planner makes its connections and reads the catalog again, because the caches of other
    clusters left no memory for its own."""
    cold, warm = size["cold"], size["idle"]["planner"]
    return RUNS["planner"] * (invocations("planner", 1, cold["seconds"], cold["processorSeconds"]) - invocations("planner", 1, warm["seconds"], warm["processorSeconds"]))


def registrations(clusters: int) -> float:
    """Dollars a month for each cluster: each minute, one environment of the planner and of lifecycle, and one of catalog in five, read the
    registrations."""
    units = -(-clusters * REGISTRATION_KB // 4)
    return MINUTES * (2 + 1 / 5) * units * DYNAMODB_READ / clusters


def many(size: Size) -> str:
    ten, clusters = small(size), CLUSTERS_OF_A_DEPLOYMENT
    month, read = idle_month(ten), registrations(clusters)
    alone = IDLE_METRICS * METRIC + ALARM_METRICS * ALARM
    shared = IDLE_METRICS * METRIC + ((clusters - 1) * SHARED_ALARM_METRICS + ALARM_METRICS) / clusters * ALARM
    lines = [
        ("invocations of the functions", [f"{sum(RUNS.values()):,.0f}"] * 2),
        ("requests of SQS", [f"{sum(sqs_requests()):,.0f}"] * 2),
        ("Lambda", [f"${month['lambda']:.2f}"] * 2),
        ("DynamoDB, with the registrations of clusters", [f"${month['dynamodb']:.2f}", f"${month['dynamodb'] + read:.2f}"]),
        ("SQS", [f"${month['sqs']:.2f}"] * 2),
        ("CloudWatch Logs", [f"${month['logs']:.2f}"] * 2),
        ("**total without monitoring**", [f"**${month['total']:.2f}**", f"**${month['total'] + read:.2f}**"]),
        (f"CloudWatch: {ALARM_METRICS} and {SHARED_ALARM_METRICS} metrics of alarms", [f"${alone:.2f}", f"${shared:.2f}"]),
    ]
    return table(["an idle month of a cluster of ten nodes", "functions of its own", f"functions of {clusters} clusters"], [row(*line) for line in lines])


def changed_nodes(size: Size, way: str) -> int:
    """The number of nodes that were launched or removed. Before the nodes are removed, more are launched for a warm planner."""
    return int(size[way].get("nodes", size["nodes"]))


def scaling(size: Size, way: str) -> float:
    """Dollars for scaling the nodes of this size up or down once, logs left out."""
    taken = size[way]
    functions = (invocations(name, taken[name]["invocations"], taken[name]["seconds"], taken[name]["processorSeconds"]) for name in MEMORY if name in taken)
    return (sum(functions) + dynamodb(taken["calls"])) / changed_nodes(size, way) * size["nodes"]


def row(name: str, cells: list[str]) -> str:
    return f"| {name} | " + " | ".join(cells) + " |"


def table(head: list[str], rows: list[str]) -> str:
    return "\n".join([row(head[0], head[1:]), "|" + "---|" * len(head), *rows])


def nodes(size: Size) -> str:
    return f"{size['nodes']:,} nodes, {size['pods']:,} pods"


def money(sizes: list[Size]) -> str:
    months = [idle_month(size) for size in sizes]
    lines = [
        ("Lambda: planner and sweep every minute, catalog every five minutes", "lambda"),
        ("DynamoDB, on-demand mode", "dynamodb"),
        ("SQS: long polls of Lambda on four queues, and the messages of the schedules", "sqs"),
        ("CloudWatch Logs", "logs"),
    ]
    rows = [row(name, [f"${month[key]:.2f}" for month in months]) for name, key in lines]
    rows.append(row("**total without monitoring**", [f"**${month['total']:.2f}**" for month in months]))
    rows.append(row("the same with assumed times of AWS instead of the emulators'", [f"${month['total'] + month['waiting']:.2f}" for month in months]))
    monitoring = IDLE_METRICS * METRIC + ALARM_METRICS * ALARM
    free = max(0, IDLE_METRICS - 10) * METRIC + max(0, ALARM_METRICS - 10) * ALARM
    rows.append(row(f"CloudWatch: {IDLE_METRICS} metrics, {ALARMS} alarms on {ALARM_METRICS} metrics", [f"${monitoring:.2f}"] * len(sizes)))
    rows.append(row("the same, in an account with an unused free tier for metrics and alarms", [f"${free:.2f}"] * len(sizes)))
    rows.append(row("all nodes up and down once", [f"${scaling(size, 'scaleUp') + scaling(size, 'scaleDown'):.4f}" for size in sizes]))
    return table(["a month of idle nodes", *map(nodes, sizes)], rows)


def took(taken: dict[str, Any]) -> str:
    return f"{taken['seconds']:.2f} / {taken['processorSeconds']:.2f} s"


def of_functions(taken: dict[str, Any], name: str) -> str:
    figures = taken[name]
    return f"{figures['invocations']}: {figures['seconds']:.1f} / {figures['processorSeconds']:.1f} s"


def durations(sizes: list[Size]) -> str:
    rows = [
        row("idle plan", [took(size["idle"]["planner"]) for size in sizes]),
        row("idle sweep", [took(size["idle"]["lifecycle"]) for size in sizes]),
        row("idle catalog refresh", [took(size["idle"]["catalog"]) for size in sizes]),
        row("plan of a planner that has just started", [took(size["cold"]) for size in sizes]),
        row("plan of 100 more pods, the planner warm", [took(size["warm"]) for size in sizes]),
        row("all pods unschedulable → all pods run", [f"{size['scaleUp']['seconds']:.1f} s" for size in sizes]),
        row("from launch to ready for the last instance", [f"{size['instanceSeconds']} s" for size in sizes]),
        row("nodes launched", [f"{size['nodesLaunched']:,}" for size in sizes]),
        row("warnings and errors logged", [f"{size['problems']['count']}" for size in sizes]),
        row("invocations of the planner", [of_functions(size["scaleUp"], "planner") for size in sizes]),
        row("invocations of lifecycle", [of_functions(size["scaleUp"], "lifecycle") for size in sizes]),
        row("all pods deleted → no NodeClaim", [f"{size['scaleDown']['seconds']:.1f} s" for size in sizes]),
        row("functions at once", [str(max(size["scaleUp"]["functionsAtOnce"], size["scaleDown"]["functionsAtOnce"])) for size in sizes]),
    ]
    rows += [
        row(f"peak memory of {name}, of {MEMORY[name]} MB", [str(size["peakMegabytes"][name]) for size in sizes]) for name in ("planner", "lifecycle", "catalog")
    ]
    rows.append(row("peak memory of a planner after its first plan, MB", [str(size["cold"]["peakMegabytes"]) for size in sizes]))
    return table(["what", *map(nodes, sizes)], rows)


def main() -> None:
    measured = json.loads((DOCS / "measurements.json").read_text())
    failed = "".join(f"- {nodes(size)}: {size['failed']}\n" for size in measured["sizes"] if "failed" in size)
    failed = f"Not measured to the end:\n\n{failed}\n" if failed else ""
    sizes: list[Size] = [size for size in measured["sizes"] if "failed" not in size]
    # A new measurement has neither field: it was made at this commit, and nothing has changed since.
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=DOCS, capture_output=True, text=True, check=True).stdout.strip()
    commit = measured.get("commit", head)
    since = "".join(f"- {change}\n" for change in measured.get("since", []))
    since = f"## Changes since the measurement\n\nComputed, not measured:\n\n{since}\n" if since else ""
    starts = "\n".join(row(name, [f"{start['startToReadyMilliseconds']:.0f} ms", f"{start['memoryMegabytes']} MB"]) for name, start in sorted(measured["starts"].items()))
    # The state of zonal shifts is one small item, which each plan and each sweep reads; GetManagedResource is free.
    zonal_shifts = 2 * MINUTES * DYNAMODB_READ
    times = ", ".join(f"{seconds * 1000:.0f} ms to {name}" for name, seconds in LATENCIES.items())
    text = f"""# Costs of nodeless

About two dollars a month for 100 nodes, alarms apart. Generated by `docs/benchmarks/cost.py` from `docs/benchmarks/measurements.json`:
measured at commit {commit} with release builds of the functions, DynamoDB Local, moto, and the simulated Kubernetes API and EC2, on a
two-core x86-64 machine that runs all of them; `make cost` repeats it. Prices are the list prices of us-east-1 without the free tier.

## Monthly costs

{money(sizes)}

With `zonal_shift_enabled`, plans and sweeps read one more item, for ${zonal_shifts:.2f}, and each sweep calls ARC, which is free.
With 1,000 nodes in five NodePools, 8,000 pods in 40 namespaces, 100 applications and 200 Deployments, an hour of the
[records of costs](../report.md) of a NodePool takes 1.7 kB, and the open record, which is written every five minutes, 5.7 kB: less than 8
cents a month. Each node that ends adds an item of 0.4 kB for two weeks.
The variable `alarms` turns off alarms. The dashboard (`dashboard = true`) costs ${DASHBOARD:.2f} beyond the three free ones of an account.

Request units are those that DynamoDB Local reports as consumed, and for transactions
[two for each kilobyte](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html) of their items.
Lambda bills durations: processor time, divided by the part of a vCPU that the memory gives (1 for {ONE_VCPU_MB} MB), and waiting.
Assumptions: an arm64 vCPU of Lambda is as fast as this machine's, Lambda polls each queue {POLLS_A_MINUTE} times a minute, and AWS answers as
fast as the emulators, but for one row: there a call takes {times}, one after another.
CloudWatch Logs has what Lambda itself writes, {LAMBDA_LOG_BYTES} bytes for each invocation.

## Many clusters

Computed from the measurement of {sizes[0]['nodes']:,} nodes. Clusters that share functions also read their registrations. The last column is an average of the
{CLUSTERS_OF_A_DEPLOYMENT} clusters that [one deployment can serve](../design/many-clusters.md#permissions).

{many(sizes[0])}

A hundred clusters of ten nodes are ten deployments and cost ${100 * (idle_month(small(sizes[0]))['total'] + registrations(10)):,.0f} a month without monitoring.
Caches of all clusters that do not fit into half of a function's memory cost up to ${reconnected(sizes[0]):.2f} a month more for each
cluster, because plans then begin without them.

{since}## Durations and memory

The functions run as up to nine processes of lifecycle and one planner; a scheduler of the measurement binds the pods, and
the nodes of the simulated EC2 become ready in the time that the table states. Two times are elapsed time / processor time.

{failed}{durations(sizes)}

## Starts

| function | start to ready | memory |
|---|---|---|
{starts}

`measurements.json` has each call.
"""
    (DOCS / "cost.md").write_text(text)


if __name__ == "__main__":
    main()
