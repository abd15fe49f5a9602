"""Launches an instance or two of its own by CreateFleet, to ask what docs/reference/aws.csv assumes of launches: repeated calls, client tokens, launch
templates that are missing, how soon EC2 describes what it launched, and what a stop keeps. They are the smallest there are, do not join the
cluster, and are terminated after some minutes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from .hour import Hour, Step

# The tag of everything that the probe makes, by which it is found again. nodeless does not use this tag, and leaves the instances alone.
MARK = "nodeless.sh/first-hour"
UNKNOWN = "i-00000000000000000"
# The smallest type of the image's architecture; another type is used where a zone has none of them.
SMALLEST = {"x86_64": "t3.micro", "arm64": "t4g.micro"}


class Probe:
    """Launch templates, and the request of a fleet of one instance from one of them."""

    def __init__(self, hour: Hour) -> None:
        self.hour = hour
        self.ec2 = hour.place.client("ec2")
        self.tags = [{"Key": MARK, "Value": hour.place.cluster}, {"Key": "Name", "Value": f"{hour.place.cluster}-probe"}]
        self.begun = time.time_ns()
        instances = hour.look()
        assert instances, "there is no instance whose image, subnet and security groups could be taken"
        self.like = instances[0]
        zone = self.like["Placement"]["AvailabilityZone"]
        smallest = SMALLEST[self.like["Architecture"]]
        filters = [{"Name": "location", "Values": [zone]}, {"Name": "instance-type", "Values": [smallest]}]
        offered = self.ec2.describe_instance_type_offerings(LocationType="availability-zone", Filters=filters)["InstanceTypeOfferings"]
        self.instance_type = smallest if offered else self.like["InstanceType"]

    def template(self, number: int) -> str:
        """Makes a launch template, and returns its name. Without user data its instances join no cluster."""
        name = f"nodeless-{self.hour.place.cluster}-probe-{self.begun}-{number}"
        groups = [group["GroupId"] for group in self.like["SecurityGroups"]]
        self.ec2.create_launch_template(
            LaunchTemplateName=name,
            LaunchTemplateData={"ImageId": self.like["ImageId"], "SecurityGroupIds": groups},
            TagSpecifications=[{"ResourceType": "launch-template", "Tags": self.tags}],
        )
        return name

    def fleet(self, token: str, *templates: str, count: int = 1) -> dict[str, Any]:
        """Launches from these templates."""
        overrides = [{"InstanceType": self.instance_type, "SubnetId": self.like["SubnetId"]}]
        answer = self.ec2.create_fleet(
            Type="instant",
            ClientToken=token,
            TargetCapacitySpecification={"TotalTargetCapacity": count, "DefaultTargetCapacityType": "on-demand"},
            LaunchTemplateConfigs=[
                {"LaunchTemplateSpecification": {"LaunchTemplateName": name, "Version": "$Latest"}, "Overrides": overrides} for name in templates
            ],
            TagSpecifications=[{"ResourceType": "instance", "Tags": self.tags}],
        )
        return dict(answer)

    def token(self, name: str) -> str:
        return f"probe-{name}-{self.begun}"

    def marked(self) -> list[str]:
        """The instances that EC2 finds by the tag, and that are not about to be gone."""
        filters = [{"Name": f"tag:{MARK}", "Values": [self.hour.place.cluster]}, {"Name": "instance-state-name", "Values": ["pending", "running"]}]
        reservations = self.ec2.describe_instances(Filters=filters)["Reservations"]
        return sorted(i["InstanceId"] for r in reservations for i in r["Instances"])

    def free_addresses(self) -> int:
        return int(self.ec2.describe_subnets(SubnetIds=[self.like["SubnetId"]])["Subnets"][0]["AvailableIpAddressCount"])


def launched(answer: dict[str, Any]) -> list[str]:
    return sorted(i for entry in answer.get("Instances", []) for i in entry["InstanceIds"])


def outcome(call: Callable[[], dict[str, Any]]) -> tuple[str, list[str], list[str]]:
    """The error code of a call, or else its instances and the codes of its errors."""
    try:
        answer = call()
    except ClientError as refusal:
        return refusal.response["Error"]["Code"], [], []
    return "", launched(answer), sorted({e["ErrorCode"] for e in answer.get("Errors", [])})


def run(hour: Hour, step: Step) -> None:
    """Makes all observations of a fleet of its own. Whatever the result, its instances are terminated and its templates deleted."""
    before = {name: len(seen) for name, seen in hour.observations.items()}
    known: set[str] = set()
    try:
        probe = Probe(hour)
        launches(probe, known)
        stops(probe, min(known))
        terminations(probe, sorted(known))
    except (BotoCoreError, ClientError, AssertionError) as failure:
        step.seen.append(f"fleets of one's own could not be tried to the end: {failure}")
    finally:
        remove(hour, known)
    for name, seen in hour.observations.items():
        for one in seen[before.get(name, 0) :]:
            step.seen.append(f"{name}: {'as assumed' if one.holds else 'not tried' if one.holds is None else 'NOT as assumed'}: {one.seen}")


def launches(probe: Probe, known: set[str]) -> None:
    """Calls that launch, and calls that should not."""
    observe, name, token = probe.hour.observe, probe.template(1), probe.token("first")
    free = probe.free_addresses()
    code, first, errors = outcome(lambda: probe.fleet(token, name))
    known.update(first)
    used = free - probe.free_addresses()
    visible = None if code and not code.startswith("InvalidLaunchTemplate") else not code
    observe("ec2-template-visible", visible, f"a fleet from a template that was just made: {code or 'accepted'}")
    assert len(first) == 1, f"the fleet launched {first}: {code}{errors}"
    observe("ec2-fleet-instant", True, "a fleet was answered with its one instance")
    observe("ec2-subnet-addresses", used > 0, f"after the answer the subnet has {used} free addresses fewer")
    described(probe, first[0])

    code, second, _ = outcome(lambda: probe.fleet(token, name))
    known.update(second)
    observe("ec2-fleet-token-answer", second == first, f"the repeated call named {second or code}, the first {first}")
    code, other, _ = outcome(lambda: probe.fleet(token, name, count=2))
    known.update(other)
    observe("ec2-fleet-token-mismatch", code == "IdempotentParameterMismatch", f"with the same token and another capacity: {code or other}")
    alive = probe.marked()
    observe("ec2-fleet-token", alive == first, f"after three calls with one token EC2 has {alive}")

    code, many, _ = outcome(lambda: probe.fleet("t" * 65, name))
    known.update(many)
    observe("ec2-fleet-token-64", bool(code), f"a client token of 65 characters: {code or many}")
    missing = f"{name}-missing"
    code, many, _ = outcome(lambda: probe.fleet(probe.token("missing"), missing))
    known.update(many)
    refused = bool(code)
    seen = f"a fleet whose one template is missing: {code or many}"
    code, some, errors = outcome(lambda: probe.fleet(probe.token("some"), missing, name))
    known.update(some)
    observe("ec2-fleet-missing-template", refused and len(some) == 1, f"{seen}; with another that is there: {code or some}, errors {errors}")
    again = probe.template(2)
    code, many, _ = outcome(lambda: probe.fleet(probe.token("pools"), name, again))
    known.update(many)
    observe("ec2-fleet-pools", bool(code), f"two templates for one type in one subnet: {code or many}")


def described(probe: Probe, instance: str) -> None:
    """How soon EC2 describes an instance, and whether its tags find it then."""
    begun, misses = time.monotonic(), 0
    while True:
        try:
            probe.ec2.describe_instances(InstanceIds=[instance])
            break
        except ClientError as refusal:
            misses += 1
            if refusal.response["Error"]["Code"] != "InvalidInstanceID.NotFound" or time.monotonic() - begun > 180:
                raise
            time.sleep(1)
    seconds = time.monotonic() - begun
    found = instance in probe.marked()
    observe = probe.hour.observe
    observe("ec2-eventual", True if misses else None, f"the instance was unknown to {misses} calls after its launch")
    observe("ec2-eventual-two-minutes", seconds <= 120, f"it was described after {seconds:.0f} s")
    observe("ec2-tag-filter", found, f"a filter on its tag {'found' if found else 'did not find'} it as soon as it was described by id")


def stops(probe: Probe, instance: str) -> None:
    """Stops an instance of an instant fleet, and starts it again."""
    observe, ec2, wait = probe.hour.observe, probe.ec2, probe.hour.wait

    def described() -> dict[str, Any]:
        return dict(ec2.describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0])

    def is_in(state: str) -> Callable[[], bool]:
        return lambda: described()["State"]["Name"] == state

    def kept() -> tuple[list[str], list[str], str]:
        found = described()
        volumes = sorted(mapping["Ebs"]["VolumeId"] for mapping in found.get("BlockDeviceMappings", []) if "Ebs" in mapping)
        return volumes, sorted(interface["NetworkInterfaceId"] for interface in found["NetworkInterfaces"]), found["PrivateIpAddress"]

    wait(f"{instance} runs", is_in("running"), 5)
    before = kept()
    stopped = refusal_of(lambda: ec2.stop_instances(InstanceIds=[instance]))
    assert not stopped, f"StopInstances: {stopped}"
    wait(f"{instance} is stopped", is_in("stopped"), 10)
    started = refusal_of(lambda: ec2.start_instances(InstanceIds=[instance]))
    observe("ec2-stop-instant", not started, f"an instance of an instant fleet was stopped, and started: {started or 'accepted'}")
    wait(f"{instance} runs again", is_in("running"), 5)
    after = kept()
    observe("ec2-stop", after == before, f"volumes, interfaces and address before its stop: {before}; after its start: {after}")


def terminations(probe: Probe, instances: list[str]) -> None:
    """Observes what TerminateInstances and DescribeInstanceStatus return for instances that end."""
    one, observe, ec2 = instances[:1], probe.hour.observe, probe.ec2
    code = refusal_of(lambda: ec2.terminate_instances(InstanceIds=[*one, UNKNOWN]))
    whole = one[0] in probe.marked()
    ec2.terminate_instances(InstanceIds=instances)
    twice = refusal_of(lambda: ec2.terminate_instances(InstanceIds=instances))
    seen = f"with an unknown id: {code or 'accepted'}, and the other instance {'runs' if whole else 'was terminated'}; for the second time: {twice or 'accepted'}"
    observe("ec2-terminate-idempotent", code == "InvalidInstanceID.NotFound" and whole and not twice, seen)
    usual = ec2.describe_instance_status(InstanceIds=one)["InstanceStatuses"]
    every = ec2.describe_instance_status(InstanceIds=one, IncludeAllInstances=True)["InstanceStatuses"]
    observe("ec2-status-running", not usual and len(every) == 1, f"of a terminated instance {len(usual)} statuses, {len(every)} where all are asked for")


def refusal_of(call: Callable[[], Any]) -> str:
    """The error code of a call; empty if it succeeds."""
    try:
        call()
    except ClientError as refusal:
        return str(refusal.response["Error"]["Code"])
    return ""


def remove(hour: Hour, known: set[str]) -> None:
    """Terminates what was launched, also what EC2 finds by the tag alone, and deletes the templates."""
    ec2 = hour.place.client("ec2")
    ours = [{"Name": f"tag:{MARK}", "Values": [hour.place.cluster]}]
    reservations = ec2.describe_instances(Filters=[*ours, {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]}])["Reservations"]
    left = known | {i["InstanceId"] for r in reservations for i in r["Instances"]}
    if left:
        ec2.terminate_instances(InstanceIds=sorted(left))
    for found in ec2.describe_launch_templates(Filters=ours)["LaunchTemplates"]:
        ec2.delete_launch_template(LaunchTemplateId=found["LaunchTemplateId"])
