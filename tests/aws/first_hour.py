#!/usr/bin/env python3
"""A first hour on AWS: applies terraform/examples/complete, lets nodeless work, destroys it, and writes a report.

    .venv/bin/python tests/aws/first_hour.py --region us-east-1

README.md reports what is needed and what it does.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from botocore.exceptions import BotoCoreError, ClientError  # noqa: E402

from aws import cost, probes, report, steps  # noqa: E402
from aws.account import Account  # noqa: E402
from aws.hour import Hour  # noqa: E402
from aws.place import Failed, Place  # noqa: E402
from aws.remains import remains  # noqa: E402
from tools import artifacts  # noqa: E402
from tools.results import Unavailable  # noqa: E402
from tools.terraform import FUNCTIONS, ROOT, plugin_mirror  # noqa: E402

# Signals that end a program; before it ends, what was made is destroyed.
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Applies terraform/examples/complete, lets nodeless work, destroys it, and writes a report.")
    parser.add_argument("--region", default="us-east-1", help="AWS region (us-east-1)")
    parser.add_argument("--cluster-name", default="first-hour", help="name of the cluster to make (first-hour)")
    parser.add_argument("--directory", type=Path, help="where state, logs and report go (target/first-hour/CLUSTER-REGION)")
    parser.add_argument("--artifacts", type=Path, default=ROOT / "target/lambda", help="where the zips of the functions are (target/lambda)")
    parser.add_argument("--architecture", choices=["arm64", "x86_64"], default="arm64", help="what the zips were built for (arm64)")
    parser.add_argument("--yes", action="store_true", help="do not ask before it begins")
    parser.add_argument("--remove", action="store_true", help="only destroy what an earlier run left, from its directory")
    parser.add_argument("--emulated", action="store_true", help="on this machine's emulators, without an account")
    options = parser.parse_args(given)
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,29}", options.cluster_name):
        parser.error("--cluster-name: at most 30 small letters, digits and dashes, so that no name made from it is shortened")
    # Absolute: Terraform runs elsewhere.
    options.directory = (options.directory or ROOT / "target/first-hour" / f"{options.cluster_name}-{options.region}").resolve()
    options.artifacts = options.artifacts.resolve()
    return options


def place_of(options: argparse.Namespace) -> Place:
    """The place of the first hour."""
    if options.emulated:
        from aws.emulated import Emulated

        if options.region != "us-east-1":
            sys.exit("The emulators are in us-east-1.")
        try:
            mirror = plugin_mirror()
        except Unavailable as reason:
            sys.exit(str(reason))
        # Emulators forget everything when they end, so what an earlier run left here is of no use.
        directory = options.directory / "emulated"
        shutil.rmtree(directory, ignore_errors=True)
        zips = artifacts.function_zips(directory / "zips")
        return Emulated(directory, options.cluster_name, options.region, artifacts.command(), zips, mirror)
    return Account(options.directory, options.cluster_name, options.region, options.artifacts, options.architecture)


def check_tools(options: argparse.Namespace) -> None:
    """Checks the prerequisites; an error explains what to do."""
    missing = [tool for tool in ("terraform", "kubectl", *(() if options.emulated else ("aws",))) if shutil.which(tool) is None]
    if missing:
        sys.exit(f"Missing on PATH: {', '.join(missing)}. Terraform 1.9 or newer, kubectl, and the AWS CLI (it makes kubectl's tokens) are needed.")
    if not options.emulated and not options.remove:
        absent = [name for name in FUNCTIONS if not (options.artifacts / name / "bootstrap.zip").is_file()]
        if absent:
            sys.exit(f"{options.artifacts} has no zip of {', '.join(absent)}. Build them with `make zips`, or name their directory with --artifacts.")


def has_state(place: Place) -> bool:
    """Whether Terraform's state contains resources."""
    state = place.state()
    return bool(state and state["resources"])


def check_names(place: Place) -> None:
    """Nothing may be there under the names that are about to be made: it would belong to someone else, and be destroyed at the end."""
    if has_state(place):
        sys.exit(f"{place.root} has the state of an earlier run. {by_hand(place)}")
    found, _ = remains(place)
    if found:
        listed = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in found.items())
        sys.exit(f"In this account, region {place.region}, there is already ({listed}). Nothing was changed. Choose another --cluster-name.")


def by_hand(place: Place) -> str:
    """How to destroy what is left."""
    return (
        f"Destroy it with\n\n    {sys.executable} {Path(__file__).resolve()} --region {place.region} --cluster-name {place.cluster} --directory {place.directory} --remove\n\n"
        f"or manually with `terraform -chdir={place.root} destroy -var=cluster_name={place.cluster} -var=region={place.region}"
        + "".join(f" -var={k}={v}" for k, v in place.variables().items())
        + f"`; instances that are left then carry the tag kubernetes.io/cluster/{place.cluster}=owned, or nodeless.sh/first-hour={place.cluster} "
        f"(docs/moving.md, \"Remove everything\"), and the role and experiment template of AWS Fault Injection Service are called nodeless-{place.cluster}-{place.region}-fis."
    )


def ask(place: Place, options: argparse.Namespace) -> None:
    """States what is about to happen and what it costs, and asks."""
    print(
        f"This makes a VPC, the EKS cluster {place.cluster}, nodeless and up to about five nodes in {place.name}, region {place.region}, works with them,\n"
        f"interrupts one spot instance with AWS Fault Injection Service, and destroys everything. It takes an hour to an hour and a half, and\n"
        f"costs about {cost.expected():.2f} dollars, by list prices. Terraform's state and the report are kept in {place.directory}."
    )
    if options.yes:
        return
    if input("Type the name of the cluster to begin: ").strip() != place.cluster:
        sys.exit("Nothing was made.")


def run(place: Place, report: Callable[[str], None] = print) -> Hour:
    """The whole hour. Everything made is destroyed whatever happens, Ctrl-C included; the caller writes the report."""
    hour = Hour(place, report)
    interrupted = False
    try:
        with hour.step("apply") as step:
            steps.apply(hour, step)
        if hour.steps[-1].outcome == "done":
            with hour.step("note versions"):
                hour.versions = steps.versions(hour)
            steps.everything(hour)
            with hour.step("ask AWS directly") as step:
                # With a node, so that there are a launch template and an instance to ask about; destroy finds it at work.
                steps.scale(hour, "inflate", 2)
                steps.converge(hour, 2)
                probes.everything(hour, step)
        else:
            hour.leave_out("scenarios", "there is nothing to try them on")
    except KeyboardInterrupt:
        interrupted = True
        report("Interrupted. What was made is destroyed now, which takes up to half an hour; pressing Ctrl-C again does not shorten it.")
    remove(hour)
    if interrupted:
        hour.leave_out("the rest", "Ctrl-C was pressed")
    return hour


def remove(hour: Hour) -> None:
    """Destroys, twice if the first time fails: a step that Terraform did not finish often succeeds when repeated."""
    before = {s: signal.signal(s, lambda *_: hour.report("Still destroying. What is not destroyed still costs money.")) for s in ENDS}
    try:
        for name in ("destroy, with nodes that run", "destroy again"):
            with hour.step(name) as step:
                steps.destroy(hour, step)
            if hour.steps[-1].outcome == "done":
                return
        hour.report(f"Not everything could be destroyed. {by_hand(hour.place)}")
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def main(given: list[str]) -> int:
    options = arguments(given)
    check_tools(options)
    # These signals act as Ctrl-C: resources must not stay because a terminal was closed.
    for signum in ENDS:
        signal.signal(signum, signal.default_int_handler)
    with place_of(options) as place:
        account = None
        try:
            account = place.number() if isinstance(place, Account) else None
            if options.remove:
                if not place.root.is_dir():
                    sys.exit(f"{place.root} is not there: nothing is known of an earlier run. Name its directory with --directory.")
                hour = Hour(place)
                remove(hour)
            else:
                check_names(place)
                ask(place, options)
                hour = run(place)
        except (BotoCoreError, ClientError) as refusal:
            sys.exit(f"AWS does not answer as it should before anything was made: {refusal}")
        except Failed as failure:
            sys.exit(str(failure))
        file = place.directory / "report.md"
        report.write(hour, file, account)
        total: Any = sum(line.dollars or 0 for line in cost.estimate(hour))
        print(f"\nEstimated, not billed: {total:.2f} dollars{'' if place.is_aws else ' if this had been AWS'}.\nThe report, which can be attached to a bug: {file}")
        if not hour.left and not has_state(place):
            shutil.rmtree(place.directory / "terraform", ignore_errors=True)
        return 1 if hour.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
