"""The resources in an account under a cluster's name: there are none before the first hour, and none after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from botocore.exceptions import ClientError

from .place import Place

# The error codes of a service that does not support the call: emulators do not support all of them.
UNKNOWN_CALL = ("InvalidAction", "UnsupportedOperation", "UnknownOperationException", "NotImplemented", "501")
# In EC2, what is gone is still described for a while.
GONE = ("terminated", "shutting-down", "deleted", "deleting")


def pages(client: Any, call: str, key: str, **parameters: Any) -> Iterable[Any]:
    """All entries of a list call."""
    if client.can_paginate(call):
        for page in client.get_paginator(call).paginate(**parameters):
            yield from page.get(key, [])
    else:
        yield from getattr(client, call)(**parameters).get(key, [])


def searches(cluster: str, region: str) -> dict[str, tuple[str, Callable[[Any], list[str]]]]:
    """By kind: the service, and how to find what is there. By tag where nodeless or EC2 tags, by name elsewhere."""
    prefix = f"nodeless-{cluster}"
    owned = [{"Name": f"tag:kubernetes.io/cluster/{cluster}", "Values": ["owned"]}]
    probed = [{"Name": "tag:nodeless.sh/first-hour", "Values": [cluster]}]
    ours = [{"Name": "tag:Name", "Values": [cluster, f"{cluster}-*"]}]
    discovered = [{"Name": "tag:karpenter.sh/discovery", "Values": [cluster]}]

    def named(call: str, key: str, name: str | None, begins: str = prefix, **parameters: Any) -> Callable[[Any], list[str]]:
        def search(client: Any) -> list[str]:
            names = [entry if name is None else entry[name] for entry in pages(client, call, key, **parameters)]
            return [n for n in names if n.rsplit("/", 1)[-1] == begins or n.rsplit("/", 1)[-1].startswith(f"{begins}-")]

        return search

    def tagged(call: str, key: str, id_: str, filters: list[dict[str, Any]], state: str = "State") -> Callable[[Any], list[str]]:
        def search(client: Any) -> list[str]:
            argument = "Filter" if call == "describe_nat_gateways" else "Filters"
            return [e[id_] for e in pages(client, call, key, **{argument: filters}) if e.get(state) not in GONE]

        return search

    def instances(client: Any) -> list[str]:
        reservations = pages(client, "describe_instances", "Reservations", Filters=owned)
        return [i["InstanceId"] for r in reservations for i in r["Instances"] if i["State"]["Name"] not in GONE]

    def probes(client: Any) -> list[str]:
        reservations = pages(client, "describe_instances", "Reservations", Filters=probed)
        return [i["InstanceId"] for r in reservations for i in r["Instances"] if i["State"]["Name"] not in GONE]

    def clusters(client: Any) -> list[str]:
        return [name for name in pages(client, "list_clusters", "clusters") if name == cluster]

    def stacks(client: Any) -> list[str]:
        found = pages(client, "list_stacks", "StackSummaries")
        return [s["StackName"] for s in found if s["StackName"].startswith(f"{prefix}-") and s["StackStatus"] != "DELETE_COMPLETE"]

    def mappings(client: Any) -> list[str]:
        found = pages(client, "list_event_source_mappings", "EventSourceMappings")
        return [m["UUID"] for m in found if f":{prefix}-" in m.get("EventSourceArn", "") and m.get("State") != "Deleting"]

    def iam_names(name: str) -> bool:
        return name.startswith((f"{prefix}-{region}", f"{cluster[:24]}-cluster-", f"{cluster}_"))

    def roles(client: Any) -> list[str]:
        return [r["RoleName"] for r in pages(client, "list_roles", "Roles") if iam_names(r["RoleName"])]

    def profiles(client: Any) -> list[str]:
        found = pages(client, "list_instance_profiles", "InstanceProfiles")
        return [p["InstanceProfileName"] for p in found if iam_names(p["InstanceProfileName"]) or f"/{cluster}/" in p.get("Path", "")]

    def own_groups(client: Any) -> list[str]:
        by_cluster = [{"Name": "tag:aws:eks:cluster-name", "Values": [cluster]}]
        return [g["GroupId"] for g in pages(client, "describe_security_groups", "SecurityGroups", Filters=by_cluster)]

    return {
        "instances": ("ec2", instances),
        "instances of probes": ("ec2", probes),
        "launch templates of probes": ("ec2", tagged("describe_launch_templates", "LaunchTemplates", "LaunchTemplateId", probed)),
        "volumes": ("ec2", tagged("describe_volumes", "Volumes", "VolumeId", owned)),
        "network interfaces": ("ec2", tagged("describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId", owned)),
        "launch templates": ("ec2", tagged("describe_launch_templates", "LaunchTemplates", "LaunchTemplateId", owned)),
        "VPCs": ("ec2", tagged("describe_vpcs", "Vpcs", "VpcId", ours)),
        "subnets": ("ec2", tagged("describe_subnets", "Subnets", "SubnetId", discovered)),
        "NAT gateways": ("ec2", tagged("describe_nat_gateways", "NatGateways", "NatGatewayId", ours)),
        "addresses": ("ec2", tagged("describe_addresses", "Addresses", "AllocationId", ours)),
        "security groups": ("ec2", own_groups),
        "clusters": ("eks", clusters),
        "functions": ("lambda", named("list_functions", "Functions", "FunctionName")),
        "event source mappings": ("lambda", mappings),
        "queues": ("sqs", named("list_queues", "QueueUrls", None, QueueNamePrefix=prefix)),
        "tables": ("dynamodb", named("list_tables", "TableNames", None)),
        "rules": ("events", named("list_rules", "Rules", "Name", NamePrefix=prefix)),
        "alarms": ("cloudwatch", named("describe_alarms", "MetricAlarms", "AlarmName", AlarmNamePrefix=prefix)),
        "dashboards": ("cloudwatch", named("list_dashboards", "DashboardEntries", "DashboardName", DashboardNamePrefix=prefix)),
        "log groups": ("logs", named("describe_log_groups", "logGroups", "logGroupName", logGroupNamePrefix=f"/aws/lambda/{prefix}")),
        "control plane log groups": ("logs", named("describe_log_groups", "logGroups", "logGroupName", "cluster", logGroupNamePrefix=f"/aws/eks/{cluster}/")),
        "stacks": ("cloudformation", stacks),
        "roles": ("iam", roles),
        "instance profiles": ("iam", profiles),
    }


def remains(place: Place) -> tuple[dict[str, list[str]], list[str]]:
    """The existing resources, by kind, and the kinds that could not be listed because no emulator supports the call."""
    found: dict[str, list[str]] = {}
    unasked: list[str] = []
    for kind, (service, search) in searches(place.cluster, place.region).items():
        names: list[str] = []
        clients = place.clients(service)
        silent = 0
        for client in clients:
            try:
                names += search(client)
            except ClientError as error:
                if place.is_aws or error.response["Error"]["Code"] not in UNKNOWN_CALL:
                    raise
                silent += 1
        if silent == len(clients):
            unasked.append(kind)
        ours = sorted(set(names) - set(place.given.get(kind, [])))
        if ours:
            found[kind] = ours
    return found, sorted(set(unasked))
