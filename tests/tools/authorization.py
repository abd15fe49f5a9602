"""The authorization of AWS API calls by IAM: actions, resources, condition keys.

From the Service Authorization Reference, https://docs.aws.amazon.com/service-authorization/latest/reference/, pages list_amazonec2,
list_amazondynamodb, list_amazonsqs, list_awssystemsmanager, list_awspricelist, list_awsidentityandaccessmanagementiam,
list_amazonelastickubernetesservice and list_applicationrecoverycontroller-zonalshift; and, below https://docs.aws.amazon.com/:

- the permissions for a launch: AWSEC2/latest/UserGuide/ExamplePolicies_EC2.html#iam-example-runinstances, and with a launch template
  use-launch-templates-to-control-launching-instances.html: those for the template and for all resources in it
- tags on creation: AWSEC2/latest/UserGuide/supported-iam-actions-tagging.html
- passing roles: IAM/latest/UserGuide/id_roles_use_passrole.html
- transactions: amazondynamodb/latest/developerguide/transaction-apis-iam.html
- partition keys: amazondynamodb/latest/developerguide/specifying-conditions.html
- the function that makes a call: lambda/latest/dg/permissions-source-function-arn.html
- an SQS batch needs the permission of the single call: AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-api-permissions-reference.html

If the documentation allows two interpretations, the permissions of both are required here. A call of an operation that is not listed here
is an error.

The documentation does not state whether the tags in a launch template are request tags (aws:RequestTag, aws:TagKeys) of the launch, so the
requests of a launch name the reading by which they are made (`Request.readings`) where it matters. Three things are known:

- ec2:CreateTags is a request of its own, with the tags that a resource gets, wherever they come from.
- Tags of the call replace tags of the template with the same key.
- The tags of network interfaces are request tags: Karpenter has them in its templates alone, and its policy requires them as request
  tags of ec2:RunInstances and ec2:CreateFleet (AllowScopedEC2InstanceActionsWithTags in
  https://karpenter.sh/docs/reference/cloudformation/#allowscopedec2instanceactionswithtags).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from .calls import Call
from .iam import Reading, Request

Context = dict[str, str | tuple[str, ...]]
Tags = Mapping[str, str]

# The prefixes of EC2's ids, for the kinds of resources whose tags are evaluated.
KINDS = {"i": "instance", "lt": "launch-template", "vol": "volume", "eni": "network-interface", "fleet": "fleet", "sg": "security-group",
         "subnet": "subnet", "vpc": "vpc", "ami": "image", "snap": "snapshot", "sir": "spot-instances-request"}  # fmt: skip
# Resources that belong to AWS or to any account, and whose ARNs contain no account.
WITHOUT_ACCOUNT = ("image", "snapshot")
DYNAMODB_ITEMS = ("GetItem", "PutItem", "UpdateItem", "DeleteItem")
DYNAMODB_TRANSACTED = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "Get": "GetItem", "ConditionCheck": "ConditionCheckItem"}


class Unknown(Exception):
    """A call whose IAM actions and resources are not implemented here."""


class Gone(Exception):
    """A call with a launch template or an instance profile that does not exist; a caller with the permissions gets that error."""


@dataclass(frozen=True)
class Profile:
    """An instance profile in IAM."""

    arn: str
    role_arn: str | None
    tags: Tags


class Account(Protocol):
    """The resources of the account at the time of a call."""

    id: str

    def tags(self, resource_id: str) -> Tags:
        """The tags of an EC2 resource; none if the resource does not exist."""
        ...

    def template(self, name_or_id: str) -> tuple[str, Mapping[str, Any]]:
        """The id of a launch template, and its latest version's data in DescribeLaunchTemplateVersions' form; or Gone."""
        ...

    def profile(self, name: str) -> Profile:
        """An instance profile; or Gone."""
        ...

    def role_arn(self, name: str) -> str:
        """The ARN of a role."""
        ...

    def partition_key(self, table: str, index: str | None) -> str:
        """The name of the partition key's attribute."""
        ...


def request_tags(tags: Tags) -> Context:
    """The condition keys of the tags in a request. Without tags the keys are absent."""
    if not tags:
        return {}
    return {f"aws:requesttag/{key.lower()}": value for key, value in tags.items()} | {"aws:tagkeys": tuple(tags)}


def resource_tags(tags: Tags) -> Context:
    """The condition keys of the tags of a resource."""
    return {f"aws:resourcetag/{key.lower()}": value for key, value in tags.items()}


def ec2_arn(region: str, account: str, kind: str, name: str) -> str:
    return f"arn:aws:ec2:{region}:{'' if kind in WITHOUT_ACCOUNT else account}:{kind}/{name}"


def requests(call: Call, account: Account) -> list[Request]:
    """The IAM requests of a call, all of which have to be allowed."""
    of_operation = OPERATIONS.get(f"{call.service}:{call.operation}")
    if of_operation is None and call.service == "ec2" and call.operation.startswith("Describe"):
        of_operation = _everything
    if of_operation is None:
        raise Unknown(f"{call}: add its IAM actions and resources to tests/tools/authorization.py")
    of_every_call: Context = {
        "aws:requestedregion": call.region,
        "lambda:sourcefunctionarn": f"arn:aws:lambda:{call.region}:{account.id}:function:{call.caller}",
    }
    return [replace(r, context=of_every_call | dict(r.context)) for r in of_operation(call, account)]


def _everything(call: Call, account: Account) -> Iterator[Request]:  # noqa: ARG001 the same for every account
    """An action that takes no resource."""
    yield Request(f"{call.service}:{call.operation}", "*")


@dataclass
class Launch:
    """The resources from which instances are launched, and those that are created with them."""

    uses: set[tuple[str, str]] = field(default_factory=set)
    # Tags by kind of resource: all that a resource gets, and those that are request tags by every reading.
    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    request_tags: dict[str, dict[str, str]] = field(default_factory=dict)
    profiles: set[str] = field(default_factory=set)
    spot: bool = False

    def use(self, kind: str, *names: str | None) -> None:
        self.uses |= {(kind, name) for name in names if name}

    def read(self, data: Mapping[str, Any], template: bool = False) -> None:
        """Reads RunInstances' parameters or a launch template's data, which differ in the names of lists."""
        self.use("image", data.get("ImageId"))
        self.use("key-pair", data.get("KeyName"))
        self.use("subnet", data.get("SubnetId"))
        self.use("security-group", *data.get("SecurityGroupIds", ()), *data.get("SecurityGroupId", ()))
        for interface in (*data.get("NetworkInterfaces", ()), *data.get("NetworkInterface", ())):
            self.use("subnet", interface.get("SubnetId"))
            self.use("security-group", *interface.get("Groups", ()), *interface.get("SecurityGroupId", ()))
            self.use("network-interface", interface.get("NetworkInterfaceId"))
        for device in (*data.get("BlockDeviceMappings", ()), *data.get("BlockDeviceMapping", ())):
            self.use("snapshot", device.get("Ebs", {}).get("SnapshotId"))
        placement = data.get("Placement", {})
        self.use("placement-group", placement.get("GroupName") or placement.get("GroupId"))
        target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
        self.use("capacity-reservation", target.get("CapacityReservationId"))
        profile = data.get("IamInstanceProfile", {})
        self.profiles |= {name.rsplit("/", 1)[-1] for name in (profile.get("Name"), profile.get("Arn")) if name}
        self.spot |= data.get("InstanceMarketOptions", {}).get("MarketType") == "spot"
        for kind, tags in tag_specifications(data).items():
            self.tags.setdefault(kind, {}).update(tags)
            if not template or kind == "network-interface":
                self.request_tags.setdefault(kind, {}).update(tags)

    def requests(self, actions: Iterable[str], region: str, account: Account) -> Iterator[Request]:
        """The IAM requests of a launch, for each of these actions."""
        created = ["instance", "volume", *([] if self._has_interface() else ["network-interface"])]
        created += ["spot-instances-request"] if self.spot else []
        for action in actions:
            for kind, name in sorted(self.uses):
                yield Request(f"ec2:{action}", ec2_arn(region, account.id, kind, name), resource_tags(account.tags(name)))
            for kind in created:
                tags, certain = self.tags.get(kind, {}), self.request_tags.get(kind, {})
                created_with = Request(f"ec2:{action}", ec2_arn(region, account.id, kind, "*"), request_tags(tags))
                if tags == certain:
                    yield created_with
                else:
                    yield replace(created_with, readings=frozenset({Reading.TEMPLATE_TAGS_COUNT}))
                    yield replace(created_with, context=request_tags(certain), readings=frozenset({Reading.TEMPLATE_TAGS_DO_NOT_COUNT}))
                if tags:
                    yield tagging(kind, tags, action, region, account)
        for name in sorted(self.profiles):
            role = account.profile(name).role_arn
            if role:
                yield pass_role(role)

    def _has_interface(self) -> bool:
        return any(kind == "network-interface" for kind, _ in self.uses)


def tag_specifications(data: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Tags by kind of resource, from a request's or a template's tag specifications."""
    found = (*data.get("TagSpecifications", ()), *data.get("TagSpecification", ()))
    return {spec["ResourceType"]: {tag["Key"]: tag.get("Value", "") for tag in spec.get("Tags", spec.get("Tag", ()))} for spec in found}


def tagging(kind: str, tags: Tags, action: str, region: str, account: Account) -> Request:
    """The IAM requests for the tags of a resource that a call creates."""
    return Request("ec2:CreateTags", ec2_arn(region, account.id, kind, "*"), request_tags(tags) | {"ec2:createaction": action})


def pass_role(arn: str) -> Request:
    """The IAM requests for a role that a call passes to EC2."""
    return Request("iam:PassRole", arn, {"iam:passedtoservice": "ec2.amazonaws.com"})


def _use_template(launch: Launch, named: Mapping[str, str], account: Account) -> None:
    found, data = account.template(named.get("LaunchTemplateId") or named["LaunchTemplateName"])
    launch.use("launch-template", found)
    launch.read(data, template=True)


def _create_fleet(call: Call, account: Account) -> Iterator[Request]:
    """EC2 launches an instant fleet with the permissions of the caller, so both actions need them."""
    launch = Launch()
    for config in call.parameters["LaunchTemplateConfigs"]:
        _use_template(launch, config["LaunchTemplateSpecification"], account)
        for override in config.get("Overrides", ()):
            launch.read({name: override[name] for name in ("ImageId", "SubnetId", "Placement") if name in override})
    tags = tag_specifications(call.parameters)
    launch.read({"TagSpecification": call.parameters.get("TagSpecification", ())})
    launch.spot |= call.parameters.get("TargetCapacitySpecification", {}).get("DefaultTargetCapacityType") == "spot"
    fleet = tags.get("fleet", {})
    yield Request("ec2:CreateFleet", ec2_arn(call.region, account.id, "fleet", "*"), request_tags(fleet))
    if fleet:
        yield tagging("fleet", fleet, "CreateFleet", call.region, account)
    yield from launch.requests(("CreateFleet", "RunInstances"), call.region, account)


def _run_instances(call: Call, account: Account) -> Iterator[Request]:
    launch = Launch()
    if "LaunchTemplate" in call.parameters:
        _use_template(launch, call.parameters["LaunchTemplate"], account)
    launch.read(call.parameters)
    yield from launch.requests(("RunInstances",), call.region, account)


def _create_launch_template(call: Call, account: Account) -> Iterator[Request]:
    tags = tag_specifications(call.parameters).get("launch-template", {})
    yield Request("ec2:CreateLaunchTemplate", ec2_arn(call.region, account.id, "launch-template", "*"), request_tags(tags))
    if tags:
        yield tagging("launch-template", tags, "CreateLaunchTemplate", call.region, account)


def _delete_launch_template(call: Call, account: Account) -> Iterator[Request]:
    name = call.parameters.get("LaunchTemplateId") or account.template(call.parameters["LaunchTemplateName"])[0]
    yield Request("ec2:DeleteLaunchTemplate", ec2_arn(call.region, account.id, "launch-template", name), resource_tags(account.tags(name)))


def _change_states(call: Call, account: Account) -> Iterator[Request]:
    for name in call.parameters["InstanceId"]:
        yield Request(f"ec2:{call.operation}", ec2_arn(call.region, account.id, "instance", name), resource_tags(account.tags(name)))


def _change_tags(call: Call, account: Account) -> Iterator[Request]:
    tags = {tag["Key"]: tag.get("Value", "") for tag in call.parameters.get("Tag", ())}
    for name in call.parameters["ResourceId"]:
        prefix = name.rsplit("-", 1)[0]
        if prefix not in KINDS:
            raise Unknown(f"{call}: unknown kind of resource {name}")
        context = resource_tags(account.tags(name)) | request_tags(tags)
        yield Request(f"ec2:{call.operation}", ec2_arn(call.region, account.id, KINDS[prefix], name), context)


def _table_arn(call: Call, account: Account, table: str, index: str | None = None) -> str:
    return f"arn:aws:dynamodb:{call.region}:{account.id}:table/{table}" + (f"/index/{index}" if index else "")


def _items(action: str, call: Call, account: Account, table: str, items: Iterable[Mapping[str, Any]]) -> Request:
    """An action on items, or on the keys of items, of one table."""
    name = account.partition_key(table, None)
    keys = sorted({str(next(iter(item[name].values()))) for item in items})
    return Request(f"dynamodb:{action}", _table_arn(call, account, table), {"dynamodb:leadingkeys": tuple(keys)})


def _item(call: Call, account: Account) -> Iterator[Request]:
    item = call.parameters.get("Key") or call.parameters["Item"]
    yield _items(call.operation, call, account, call.parameters["TableName"], [item])


def _batch_get(call: Call, account: Account) -> Iterator[Request]:
    for table, request in call.parameters["RequestItems"].items():
        yield _items("BatchGetItem", call, account, table, request["Keys"])


def _batch_write(call: Call, account: Account) -> Iterator[Request]:
    for table, writes in call.parameters["RequestItems"].items():
        items = [write["PutRequest"]["Item"] if "PutRequest" in write else write["DeleteRequest"]["Key"] for write in writes]
        yield _items("BatchWriteItem", call, account, table, items)


def _transact(call: Call, account: Account) -> Iterator[Request]:
    for entry in call.parameters["TransactItems"]:
        for kind, part in entry.items():
            yield _items(DYNAMODB_TRANSACTED[kind], call, account, part["TableName"], [part.get("Key") or part["Item"]])


def _query(call: Call, account: Account) -> Iterator[Request]:
    table, index = call.parameters["TableName"], call.parameters.get("IndexName")
    key = account.partition_key(table, index)
    names = call.parameters.get("ExpressionAttributeNames", {})
    for name, placeholder in re.findall(r"([#\w]+)\s*=\s*(:\w+)", call.parameters["KeyConditionExpression"]):
        if names.get(name, name) == key:
            value = str(next(iter(call.parameters["ExpressionAttributeValues"][placeholder].values())))
            yield Request("dynamodb:Query", _table_arn(call, account, table, index), {"dynamodb:leadingkeys": (value,)})
            return
    raise Unknown(f"{call}: no partition in {call.parameters['KeyConditionExpression']!r}")


def _scan(call: Call, account: Account) -> Iterator[Request]:
    """A scan has no partition."""
    yield Request("dynamodb:Scan", _table_arn(call, account, call.parameters["TableName"], call.parameters.get("IndexName")))


def _queue(call: Call, account: Account) -> Iterator[Request]:  # noqa: ARG001 the URL names the owner
    owner, name = call.parameters["QueueUrl"].rstrip("/").rsplit("/", 2)[-2:]
    if not owner.isdigit():
        raise Unknown(f"{call}: no account in the queue URL {call.parameters['QueueUrl']}")
    yield Request(f"sqs:{call.operation.removesuffix('Batch')}", f"arn:aws:sqs:{call.region}:{owner}:{name}")


def _parameter(call: Call, account: Account) -> Iterator[Request]:
    """Amazon's public parameters belong to no account, and their ARNs contain none."""
    for name in call.parameters.get("Names") or [call.parameters["Name"]]:
        owner = "" if name.startswith("/aws/service/") else account.id
        yield Request(f"ssm:{call.operation}", f"arn:aws:ssm:{call.region}:{owner}:parameter/{name.lstrip('/')}")


def _cluster(call: Call, account: Account) -> Iterator[Request]:
    yield Request("eks:DescribeCluster", f"arn:aws:eks:{call.region}:{account.id}:cluster/{call.parameters['name']}")


def _access_policy(call: Call, account: Account) -> Iterator[Request]:
    """The ARN of an access entry ends in an id that EKS assigns. For the principal of a role with a path, it is not documented whether the
    ARN contains the path, so both are asked. Only the call that associates a policy has a scope."""
    principal, scope = call.parameters["principalArn"], call.parameters.get("accessScope")
    owner, (kind, *path) = principal.split(":")[4], principal.split(":", 5)[5].split("/")
    context: Context = {"eks:principalarn": principal, "eks:policyarn": call.parameters["policyArn"]}
    context |= {"eks:accessscope": scope["type"]} if scope else {}
    for name in dict.fromkeys(("/".join(path), path[-1])):
        entry = f"{call.parameters['name']}/{kind}/{owner}/{name}/0a1b2c3d-0000-0000-0000-000000000000"
        yield Request(f"eks:{call.operation}", f"arn:aws:eks:{call.region}:{account.id}:access-entry/{entry}", context)


def _savings_plan(call: Call, account: Account) -> Iterator[Request]:
    """A list of Savings Plans that names none is authorized for all of them."""
    named = call.parameters.get("savingsPlanIds") or [call.parameters.get("savingsPlanId", "*")]
    for name in named:
        yield Request(f"savingsplans:{call.operation}", f"arn:aws:savingsplans::{account.id}:savingsplan/{name}")


def _zonal_shifts(call: Call, account: Account) -> Iterator[Request]:  # noqa: ARG001 takes no resource
    context: Context = {"arc-zonal-shift:resourceidentifier": call.parameters["resourceIdentifier"]}
    yield Request("arc-zonal-shift:GetManagedResource", "*", context)


def _create_profile(call: Call, account: Account) -> Iterator[Request]:
    """IAM authorizes the tags too; it is not documented which tags the resource has then. Karpenter's policy, for the same calls, requires
    the new tags of the resource too, so a new profile is treated as having the tags of the call."""
    name, path = call.parameters["InstanceProfileName"], call.parameters.get("Path", "/")
    arn = f"arn:aws:iam::{account.id}:instance-profile{path}{name}"
    tags = {tag["Key"]: tag.get("Value", "") for tag in call.parameters.get("Tags", ())}
    yield Request("iam:CreateInstanceProfile", arn, request_tags(tags))
    if tags:
        yield Request("iam:TagInstanceProfile", arn, request_tags(tags) | resource_tags(tags))


def _profile(call: Call, account: Account) -> Iterator[Request]:
    found = account.profile(call.parameters["InstanceProfileName"])
    tags = {tag["Key"]: tag.get("Value", "") for tag in call.parameters.get("Tags", ())}
    yield Request(f"iam:{call.operation}", found.arn, resource_tags(found.tags) | request_tags(tags))
    if call.operation == "AddRoleToInstanceProfile":
        yield pass_role(account.role_arn(call.parameters["RoleName"]))


OPERATIONS: dict[str, Callable[[Call, Account], Iterator[Request]]] = {
    "ec2:CreateFleet": _create_fleet,
    "ec2:RunInstances": _run_instances,
    "ec2:CreateLaunchTemplate": _create_launch_template,
    "ec2:DeleteLaunchTemplate": _delete_launch_template,
    **{f"ec2:{operation}": _change_states for operation in ("RebootInstances", "StartInstances", "StopInstances", "TerminateInstances")},
    "ec2:CreateTags": _change_tags,
    "ec2:DeleteTags": _change_tags,
    **{f"dynamodb:{operation}": _item for operation in DYNAMODB_ITEMS},
    "dynamodb:BatchGetItem": _batch_get,
    "dynamodb:BatchWriteItem": _batch_write,
    "dynamodb:TransactWriteItems": _transact,
    "dynamodb:TransactGetItems": _transact,
    "dynamodb:Query": _query,
    "dynamodb:Scan": _scan,
    **{f"sqs:{operation}": _queue for operation in ("SendMessage", "SendMessageBatch", "ReceiveMessage", "DeleteMessage",
                                                     "DeleteMessageBatch", "ChangeMessageVisibility", "PurgeQueue", "GetQueueAttributes")},
    "ssm:GetParameter": _parameter,
    "ssm:GetParameters": _parameter,
    "pricing:GetProducts": _everything,
    "eks:DescribeCluster": _cluster,
    "eks:AssociateAccessPolicy": _access_policy,
    "eks:DisassociateAccessPolicy": _access_policy,
    "arc-zonal-shift:GetManagedResource": _zonal_shifts,
    "savingsplans:DescribeSavingsPlans": _savings_plan,
    "savingsplans:DescribeSavingsPlanRates": _savings_plan,
    "iam:ListInstanceProfiles": _everything,
    "iam:CreateInstanceProfile": _create_profile,
    **{f"iam:{operation}": _profile for operation in ("GetInstanceProfile", "AddRoleToInstanceProfile", "TagInstanceProfile",
                                                       "RemoveRoleFromInstanceProfile", "DeleteInstanceProfile")},
}  # fmt: skip
