#!/usr/bin/env python3
"""Makes docs/cost.md from docs/measurements.json and AWS's list prices.

    cargo build --release -p planner -p lifecycle -p interruption -p catalog -p wake -p installer
    cargo run --release -p nodeless-tests --all-features --example measure-functions > docs/measurements.json
    python3 docs/cost.py
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

DOCS = Path(__file__).resolve().parent
MINUTES = 60 * 24 * 30

# us-east-1 list prices in dollars, without any free tier, 2026-11.
LAMBDA_REQUEST = 0.20 / 1e6
LAMBDA_GB_SECOND = 0.0000133334  # arm64
SQS_STANDARD = 0.40 / 1e6
SQS_FIFO = 0.50 / 1e6
DYNAMODB_READ = 0.125 / 1e6  # a request unit: 4 kB, consistently
DYNAMODB_WRITE = 0.625 / 1e6  # a request unit: 1 kB
METRIC = 0.30
ALARM = 0.10
DASHBOARD = 3.00
LOGS_GB = 0.50

# Lambda keeps about five long polls of 20 seconds open on each queue, whether there are messages or not.
POLLS_A_MINUTE = 15
# Memory that the module gives the functions (terraform/variables.tf), in GB, and how often a month they run when idle.
MEMORY = {"planner": 1.0, "lifecycle": 0.5, "catalog": 1.0}
RUNS = {"planner": MINUTES, "lifecycle": MINUTES, "catalog": MINUTES / 5}
# Metrics that are written in every hour of an idle month; the others only in hours in which something happens.
IDLE_METRICS = 11
# 18 alarms; CloudWatch charges for each metric in one, and stale and wake-silent have two each.
ALARMS = 20
LOG_KB_A_MINUTE = 3.0


def dynamodb(calls: dict[str, int]) -> float:
    return calls.get("DynamoDB read request units", 0) * DYNAMODB_READ + calls.get("DynamoDB write request units", 0) * DYNAMODB_WRITE


def invocations(name: str, count: float, milliseconds: float) -> float:
    # Lambda gives less than a whole CPU below 1,769 MB: 3 times as long as on this machine is assumed.
    return count * (LAMBDA_REQUEST + 3 * milliseconds / 1000 * MEMORY[name] * LAMBDA_GB_SECOND)


def call_table(calls: dict[str, int]) -> str:
    return "\n".join(f"| {name} | {count} |" for name, count in sorted(calls.items())) or "| none | 0 |"


def main() -> None:
    measured = json.loads((DOCS / "measurements.json").read_text())
    idle = measured["idle"]
    # A new measurement says neither: it was made at this commit, and nothing has changed since.
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=DOCS, capture_output=True, text=True, check=True).stdout.strip()
    commit = measured.get("commit", head)
    since = "".join(f"- {change}\n" for change in measured.get("since", []))
    since = f"## Changed since it was measured\n\nComputed from the code, not measured:\n\n{since}\n" if since else ""

    lambdas = sum(invocations(name, RUNS[name], idle[name]["milliseconds"]) for name in RUNS)
    table = sum(RUNS[name] * dynamodb(idle[name]["calls"]) for name in RUNS)
    messages = MINUTES * 2 * (SQS_FIFO + SQS_STANDARD) + MINUTES / 5 * 2 * SQS_FIFO
    queues = MINUTES * POLLS_A_MINUTE * 2 * (SQS_STANDARD + SQS_FIFO) + messages
    logs = LOG_KB_A_MINUTE * MINUTES / 1e6 * LOGS_GB
    watching = IDLE_METRICS * METRIC + ALARMS * ALARM + DASHBOARD
    scale = measured["scaleUp"]
    once = sum(
        invocations(name, scale[name]["invocations"], scale[name]["milliseconds"] / scale[name]["invocations"]) + dynamodb(scale[name]["calls"])
        for name in ("planner", "lifecycle")
    )
    running = lambdas + table + queues + logs
    # What is known of shifts is one small item, read by each plan and each sweep; GetManagedResource is free.
    shifts = 2 * MINUTES * DYNAMODB_READ
    free = max(0, IDLE_METRICS - 10) * METRIC + max(0, ALARMS - 10) * ALARM

    functions = "\n".join(
        f"| {name} | {figures['startToReadyMilliseconds']:.0f} ms | {figures['peakMemoryMegabytes']} MB |"
        for name, figures in sorted(measured["functions"].items())
    )
    text = f"""# What nodeless costs

Made by `docs/cost.py` from `docs/measurements.json`, measured at commit {commit} with release builds against moto and the
simulated cluster and EC2, {measured['nodes']} nodes, on a two-core x86-64 machine. Prices are us-east-1's list prices without
any free tier. Do not edit: measure again.

## A month

| what | idle, {measured['nodes']} nodes |
|---|---|
| Lambda: planner and sweep each minute, catalog each five | ${lambdas:.2f} |
| DynamoDB, on demand | ${table:.2f} |
| SQS: Lambda's own long polls on four queues, and the messages of the schedules | ${queues:.2f} |
| CloudWatch Logs | ${logs:.2f} |
| **runs for** | **${running:.2f}** |
| CloudWatch: {IDLE_METRICS} metrics, 18 alarms over {ALARMS} metrics, a dashboard | ${watching:.2f} |
| the same, in an account that has its free tier of metrics, alarms and dashboards left | ${free:.2f} |

One scale-up of {measured['nodes']} nodes costs ${once:.4f}, so a busy month with a thousand of them costs ${1000 * once:.2f} more.
With `zonal_shift_enabled`, plans and sweeps read one item more, for ${shifts:.2f}, and each sweep asks ARC, which costs nothing.
What is watched costs more than what works: the variables `dashboard` and `alarms` are the place to save.

Request units of DynamoDB are counted on the JSON of its answers, which is an upper bound; the emulators' own time is part of
the durations. Assumed, not measured: Lambda takes three times as long as this machine; it polls each queue {POLLS_A_MINUTE}
times a minute; {LOG_KB_A_MINUTE:.0f} kB of logs a minute.

{since}## The functions

| function | start to ready | peak memory |
|---|---|---|
{functions}

Idle runs take {idle['planner']['milliseconds']:.0f} ms (planner), {idle['lifecycle']['milliseconds']:.0f} ms (sweep) and
{idle['catalog']['milliseconds']:.0f} ms (catalog) in a warm execution environment.

## Calls

### One idle plan

| call | number |
|---|---|
{call_table(idle['planner']['calls'])}

### One idle sweep

| call | number |
|---|---|
{call_table(idle['lifecycle']['calls'])}

### One idle catalog refresh

| call | number |
|---|---|
{call_table(idle['catalog']['calls'])}

### A scale-up of {measured['nodes']} nodes: the plan

{scale['planner']['invocations']} invocation of the planner, {scale['planner']['milliseconds'] / 1000:.1f} s.

| call | number |
|---|---|
{call_table(scale['planner']['calls'])}

### A scale-up of {measured['nodes']} nodes: launch to initialised

{scale['lifecycle']['invocations']} invocations of lifecycle, {scale['lifecycle']['milliseconds'] / 1000:.1f} s together.

| call | number |
|---|---|
{call_table(scale['lifecycle']['calls'])}
"""
    (DOCS / "cost.md").write_text(text)


if __name__ == "__main__":
    main()
