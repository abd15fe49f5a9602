"""Attacks on others by an attacker with a function's role, evaluated by the policies that Terraform renders.

docs/reference/security.md states the same in words, and what IAM does not prevent: `test_what_iam_does_not_prevent` keeps that true.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tools.authorization import Profile, Tags, request_tags, requests, resource_tags
from tools.calls import Call
from tools.iam import Decision, Policy, Request
from tools.rendered import ACCOUNT, CLUSTER, NODE_ROLE, QUEUE_KEY, REGION, SIBLING, TABLE, TABLE_KEY, TOPIC, TOPIC_KEY, Rendered, queue_arn, render
from tools.security import documented_as_unused
from tools.terraform import FUNCTIONS

EC2 = f"arn:aws:ec2:{REGION}:{ACCOUNT}"
IAM = f"arn:aws:iam::{ACCOUNT}"


def owned_by(cluster: str) -> dict[str, str]:
    """The tags of what nodeless makes in EC2 for a cluster."""
    return {f"kubernetes.io/cluster/{cluster}": "owned", "eks:eks-cluster-name": cluster, "karpenter.sh/nodepool": "default"}


def profile_tags(cluster: str, region: str = REGION) -> dict[str, str]:
    """The tags of the instance profiles that nodeless makes for a cluster."""
    tags = {"karpenter.k8s.aws/ec2nodeclass": "default", "topology.kubernetes.io/region": region}
    return {f"kubernetes.io/cluster/{cluster}": "owned", "eks:eks-cluster-name": cluster, **tags}


# The role of the installer, by the name that the module gives it.
INSTALLER = f"nodeless-{CLUSTER}-{REGION}-installer"
OURS, THEIRS = owned_by(CLUSTER), owned_by("theirs")
MANAGED = {f"kubernetes.io/cluster/{CLUSTER}": "owned", "eks:nodegroup-name": "system", "eks:cluster-name": CLUSTER}
RESOURCES: dict[str, Tags] = {
    "i-ours": OURS,
    "i-theirs": THEIRS,
    "i-managed": MANAGED,
    "i-sibling": owned_by(SIBLING),
    "i-bare": {},
    "lt-ours": OURS,
    "lt-theirs": THEIRS,
    "lt-managed": MANAGED,
    "lt-admin": OURS,
    "lt-tagging": OURS,
    "vol-ours": OURS,
    "eni-theirs": THEIRS,
    "eni-ours": OURS,
}
PROFILES: dict[str, tuple[str, Tags]] = {
    "ours": ("ours-node", profile_tags(CLUSTER)),
    "theirs": ("theirs-node", profile_tags("theirs")),
    "namesake": ("ours-node", profile_tags(CLUSTER, "us-east-1")),
    "bare": ("ours-node", {}),
    "classless": ("ours-node", {k: v for k, v in profile_tags(CLUSTER).items() if k != "karpenter.k8s.aws/ec2nodeclass"}),
    "admin": ("admin", {}),
    "sibling": ("sibling-node", profile_tags(SIBLING)),
}


class Account:
    """An account with two clusters and resources of neither."""

    id = ACCOUNT

    def tags(self, resource_id: str) -> Tags:
        return RESOURCES.get(resource_id, {})

    def template(self, name_or_id: str) -> tuple[str, Mapping[str, Any]]:
        profile = {"lt-ours": "ours", "lt-theirs": "ours", "lt-managed": "ours", "lt-admin": "admin", "lt-tagging": "ours"}[name_or_id]
        # The kinds that nodeless tags in its templates; lt-tagging tags all.
        kinds = ["network-interface", "spot-instances-request", *(["instance", "volume"] if name_or_id == "lt-tagging" else [])]
        tagged = [{"ResourceType": kind, "Tags": tag_list(OURS)} for kind in kinds]
        return name_or_id, {"ImageId": "ami-0a", "IamInstanceProfile": {"Name": profile}, "TagSpecifications": tagged}

    def profile(self, name: str) -> Profile:
        role, tags = PROFILES[name]
        return Profile(f"{IAM}:instance-profile/{name}", self.role_arn(role), tags)

    def role_arn(self, name: str) -> str:
        return f"{IAM}:role/{name}"

    def partition_key(self, table: str, index: str | None) -> str:  # noqa: ARG002 every table here is ours
        return "instanceId" if index else "pk"


def call(service: str, operation: str, region: str = REGION, **parameters: object) -> list[Request]:
    """All that AWS asks about a call."""
    return requests(Call("attacker", service, region, operation, parameters), Account())


def access_policy(operation: str, role: str, policy: str = "AmazonEKSClusterAdminPolicy", cluster: str = CLUSTER, scope: str = "cluster") -> list[Request]:
    """A change of the access policies of a role in a cluster."""
    more = {"accessScope": {"type": scope, "namespaces": ["a"] if scope == "namespace" else []}} if operation == "AssociateAccessPolicy" else {}
    policy_arn = f"arn:aws:eks::aws:cluster-access-policy/{policy}"
    return call("eks", operation, name=cluster, principalArn=f"{IAM}:role/{role}", policyArn=policy_arn, **more)


def ask(action: str, resource: str = "*", **context: str | tuple[str, ...]) -> list[Request]:
    """A question of its own, about an action that no function ever calls."""
    return [Request(action, resource, {"aws:requestedregion": REGION, **context})]


def tag_list(tags: Tags) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def launch(
    operation: str,
    tags: Tags,
    template: str | None = "lt-ours",
    only: tuple[str, ...] = ("fleet", "instance", "volume", "network-interface"),
    **more: object,
) -> list[Request]:
    """A launch whose resources get these tags, of the kinds that are named."""
    named = {"LaunchTemplateId": template}
    specifications = [{"ResourceType": kind, "Tag": tag_list(tags)} for kind in only if tags]
    if operation == "CreateFleet":
        more["LaunchTemplateConfigs"] = [{"LaunchTemplateSpecification": named, "Overrides": [{"SubnetId": "subnet-0a"}]}]
    elif template:
        more["LaunchTemplate"] = named
    return call("ec2", operation, TagSpecification=specifications, **more)


def tag(resource: str, **tags: str) -> list[Request]:
    return call(
        "ec2", "CreateTags", ResourceId=[resource], Tag=tag_list({key.replace("__", "/").replace("_", "-"): value for key, value in tags.items()})
    )


def key(cluster: str) -> dict[str, dict[str, str]]:
    return {"pk": {"S": cluster}, "sk": {"S": "nodeclaim#a"}}


def query(cluster: str, **more: str) -> list[Request]:
    return call("dynamodb", "Query", TableName="nodeless", KeyConditionExpression="pk = :c", ExpressionAttributeValues={":c": {"S": cluster}}, **more)


def item(operation: str, cluster: str) -> list[Request]:
    return call("dynamodb", operation, TableName="nodeless", **{"Item" if operation == "PutItem" else "Key": key(cluster)})


def send(queue: str) -> list[Request]:
    return call("sqs", "SendMessage", QueueUrl=f"https://sqs/{ACCOUNT}/{queue}", MessageBody="{}")


def use_key(action: str, arn: str, service: str | None = None, table: str | None = None) -> list[Request]:
    """A use of a key of KMS, by a service in the name of the caller or by the caller itself."""
    via = {"kms:viaservice": f"{service}.{REGION}.amazonaws.com"} if service else {}
    return ask(action, arn, **via, **({"kms:encryptioncontext:aws:dynamodb:tablename": table} if table else {}))


def profile(operation: str, name: str, **more: object) -> list[Request]:
    return call("iam", operation, region="us-east-1", InstanceProfileName=name, **more)


def without(tags: Tags, name: str) -> dict[str, str]:
    return {key: value for key, value in tags.items() if key != name}


def half_tagged() -> dict[str, list[Request]]:
    """Single questions about things that lack one of their tags: a call is refused by the first no, which would hide the others."""
    attacks: dict[str, list[Request]] = {}
    for lacking in OURS:
        tags = without(OURS, lacking)
        for action in ("CreateFleet", "RunInstances", "CreateLaunchTemplate"):
            attacks[f"{action} without the tag {lacking}"] = ask(f"ec2:{action}", f"{EC2}:instance/*", **request_tags(tags))
            tagging = {**request_tags(tags), "ec2:createaction": action}
            attacks[f"tag what {action} makes without {lacking}"] = ask("ec2:CreateTags", f"{EC2}:instance/*", **tagging)
    whole = profile_tags(CLUSTER)
    for lacking in whole:
        tags = without(whole, lacking)
        new = f"{IAM}:instance-profile/new"
        attacks[f"create a profile without the tag {lacking}"] = ask("iam:CreateInstanceProfile", new, **request_tags(tags))
        attacks[f"tag a profile of ours without {lacking}"] = ask("iam:TagInstanceProfile", new, **resource_tags(whole), **request_tags(tags))
        attacks[f"tag a profile that lacks {lacking}"] = ask("iam:TagInstanceProfile", new, **resource_tags(tags), **request_tags(whole))
    return attacks


def adopt(resource: str) -> list[Request]:
    return call("ec2", "CreateTags", ResourceId=[resource], Tag=tag_list(OURS))


# The name that the module gives the table; the ARN of the mock has another one.
OUR_TABLE = f"nodeless-{CLUSTER}"
OTHER_KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/other"
SPOT_ROLE = f"{IAM}:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot"
FIND_CLAIM = call(
    "dynamodb",
    "Query",
    TableName="nodeless",
    IndexName="instance",
    KeyConditionExpression="instanceId = :i",
    ExpressionAttributeValues={":i": {"S": "i-ours"}},
)

# Played with every role. An attack fails when one of the questions that AWS asks is answered with no.
ATTACKS: dict[str, list[Request]] = {
    "terminate an instance of another cluster": call("ec2", "TerminateInstances", InstanceId=["i-theirs"]),
    "terminate ours and theirs in one call": call("ec2", "TerminateInstances", InstanceId=["i-ours", "i-theirs"]),
    "terminate an instance of no cluster": call("ec2", "TerminateInstances", InstanceId=["i-bare"]),
    "terminate a node of a managed node group": call("ec2", "TerminateInstances", InstanceId=["i-managed"]),
    "stop an instance of another cluster": call("ec2", "StopInstances", InstanceId=["i-theirs"]),
    "start an instance of no cluster": call("ec2", "StartInstances", InstanceId=["i-bare"]),
    "stop a node of a managed node group": call("ec2", "StopInstances", InstanceId=["i-managed"]),
    "reboot an instance of another cluster": call("ec2", "RebootInstances", InstanceId=["i-theirs"]),
    "reboot a node of a managed node group": call("ec2", "RebootInstances", InstanceId=["i-managed"]),
    "delete a launch template of another cluster": call("ec2", "DeleteLaunchTemplate", LaunchTemplateId="lt-theirs"),
    "delete the launch template of a managed node group": call("ec2", "DeleteLaunchTemplate", LaunchTemplateId="lt-managed"),
    "create a fleet without tags": launch("CreateFleet", {}),
    "create a fleet with the tags of another cluster": launch("CreateFleet", THEIRS),
    "create a fleet that calls itself another cluster's": launch("CreateFleet", {**OURS, "eks:eks-cluster-name": "theirs"}),
    "create a fleet of no NodePool": launch("CreateFleet", {k: v for k, v in OURS.items() if k != "karpenter.sh/nodepool"}),
    "create a tagged fleet of instances without tags": launch("CreateFleet", OURS, only=("fleet",)),
    "create a fleet whose volumes have no tags": launch("CreateFleet", OURS, only=("fleet", "instance")),
    "create a fleet from a launch template of another cluster": launch("CreateFleet", OURS, "lt-theirs"),
    "create a fleet from the launch template of a node group": launch("CreateFleet", OURS, "lt-managed"),
    "launch with another role than the nodes', by a template of ours": launch("CreateFleet", OURS, "lt-admin"),
    "run instances without tags": launch("RunInstances", {}, None, ImageId="ami-0a", SubnetId="subnet-0a"),
    "run instances with the tags of another cluster": launch("RunInstances", THEIRS, None, ImageId="ami-0a"),
    "run instances with another role than the nodes'": launch("RunInstances", OURS, None, ImageId="ami-0a", IamInstanceProfile={"Name": "admin"}),
    "run instances with the node role of another cluster": launch(
        "RunInstances", OURS, None, ImageId="ami-0a", IamInstanceProfile={"Name": "theirs"}
    ),
    "run instances with a key pair": launch("RunInstances", OURS, None, ImageId="ami-0a", KeyName="mine"),
    "take over a network interface of another cluster": launch(
        "RunInstances", OURS, None, ImageId="ami-0a", NetworkInterface=[{"NetworkInterfaceId": "eni-theirs"}]
    ),
    "create a launch template without tags": call("ec2", "CreateLaunchTemplate", LaunchTemplateName="x", LaunchTemplateData={}),
    "create a launch template of another cluster": call(
        "ec2", "CreateLaunchTemplate", LaunchTemplateName="x", TagSpecification=[{"ResourceType": "launch-template", "Tag": tag_list(THEIRS)}]
    ),
    "tag an instance of another cluster": tag("i-theirs", Name="mine"),
    "make an instance of another cluster ours by tags": adopt("i-theirs"),
    "make an instance of no cluster ours by tags": adopt("i-bare"),
    "make a node of a managed node group ours by tags": tag("i-managed", **{"karpenter.sh/nodepool": "default"}),
    "make a launch template of another cluster ours by tags": adopt("lt-theirs"),
    "make a subnet ours by tags": adopt("subnet-0a"),
    "make a security group ours by tags": adopt("sg-0a"),
    "tag a volume that exists": tag("vol-ours", Name="x"),
    "move an instance of ours to another NodePool by tags": tag("i-ours", **{"karpenter.sh/nodepool": "another"}),
    "state that an instance of ours is another cluster's": tag("i-ours", **{"eks:eks-cluster-name": "theirs"}),
    "give a launch template of ours another tag": tag("lt-ours", team="x"),
    "mark a launch template of another cluster as used": tag("lt-theirs", **{"nodeless.sh/last-used": "2026-01-01"}),
    "name a node of a managed node group": tag("i-managed", Name="x"),
    "mark the launch template of a node group as used": tag("lt-managed", **{"nodeless.sh/last-used": "2026-01-01"}),
    "take tags from an instance of ours": call("ec2", "DeleteTags", ResourceId=["i-ours"], Tag=tag_list(OURS)),
    "read what another region has": call("ec2", "DescribeInstances", "us-west-2"),
    "read another region's subnets": call("ec2", "DescribeSubnets", "us-west-2"),
    "read another region's Reserved Instances": call("ec2", "DescribeReservedInstances", "us-west-2"),
    "read rates of another account's Savings Plan": ask("savingsplans:DescribeSavingsPlanRates", "arn:aws:savingsplans::999988887777:savingsplan/p"),
    "pass another role to EC2": ask("iam:PassRole", f"{IAM}:role/admin", **{"iam:passedtoservice": "ec2.amazonaws.com"}),
    "pass another cluster's node role to EC2": ask("iam:PassRole", f"{IAM}:role/theirs-node", **{"iam:passedtoservice": "ec2.amazonaws.com"}),
    "pass the node role to a function": ask("iam:PassRole", NODE_ROLE, **{"iam:passedtoservice": "lambda.amazonaws.com"}),
    "put another role into a profile of ours": profile("AddRoleToInstanceProfile", "ours", RoleName="admin"),
    "put the node role into a profile of another cluster": profile("AddRoleToInstanceProfile", "theirs", RoleName="ours-node"),
    "put the node role into an untagged profile": profile("AddRoleToInstanceProfile", "bare", RoleName="ours-node"),
    "take the role from a profile of another cluster": profile("RemoveRoleFromInstanceProfile", "theirs", RoleName="theirs-node"),
    "delete a profile of another cluster": profile("DeleteInstanceProfile", "theirs"),
    "delete a profile of a cluster of our name in another region": profile("DeleteInstanceProfile", "namesake"),
    "delete a profile of our cluster that no EC2NodeClass has": profile("DeleteInstanceProfile", "classless"),
    "make a profile of another cluster ours by tags": profile("TagInstanceProfile", "theirs", Tags=tag_list(profile_tags(CLUSTER))),
    "make an untagged profile ours by tags": profile("TagInstanceProfile", "bare", Tags=tag_list(profile_tags(CLUSTER))),
    "create a profile without tags": profile("CreateInstanceProfile", "new"),
    "create a profile of another cluster": profile("CreateInstanceProfile", "new", Tags=tag_list(profile_tags("theirs"))),
    "create a role for another service": ask(
        "iam:CreateServiceLinkedRole",
        f"{IAM}:role/aws-service-role/ecs.amazonaws.com/AWSServiceRoleForECS",
        **{"iam:awsservicename": "ecs.amazonaws.com"},
    ),
    "create the role of spot instances in another service's name": ask(
        "iam:CreateServiceLinkedRole", SPOT_ROLE, **{"iam:awsservicename": "ecs.amazonaws.com"}
    ),
    **half_tagged(),
    **{f"{operation} of an item of another cluster": item(operation, "theirs") for operation in ("GetItem", "PutItem", "UpdateItem", "DeleteItem")},
    "query the items of another cluster": query("theirs"),
    "query the items of a cluster whose name begins like ours": query(f"{CLUSTER}-2"),
    "query a part of another cluster": query(f"theirs#{CLUSTER}"),
    "read items of another cluster in a batch": call("dynamodb", "BatchGetItem", RequestItems={"nodeless": {"Keys": [key(CLUSTER), key("theirs")]}}),
    "write items of another cluster in a batch": call(
        "dynamodb", "BatchWriteItem", RequestItems={"nodeless": [{"DeleteRequest": {"Key": key(CLUSTER)}}, {"DeleteRequest": {"Key": key("theirs")}}]}
    ),
    "write items of another cluster in a transaction": call(
        "dynamodb",
        "TransactWriteItems",
        TransactItems=[{"Put": {"TableName": "nodeless", "Item": key(CLUSTER)}}, {"Delete": {"TableName": "nodeless", "Key": key("theirs")}}],
    ),
    "learn of items of another cluster by a condition": call(
        "dynamodb", "TransactWriteItems", TransactItems=[{"ConditionCheck": {"TableName": "nodeless", "Key": key("theirs")}}]
    ),
    "scan the table": call("dynamodb", "Scan", TableName="nodeless"),
    "scan the index": call("dynamodb", "Scan", TableName="nodeless", IndexName="instance"),
    "read another table": call("dynamodb", "GetItem", TableName="orders", Key=key(CLUSTER)),
    **{
        f"{action} on the table": ask(action, TABLE)
        for action in (
            "dynamodb:DeleteTable",
            "dynamodb:UpdateTable",
            "dynamodb:UpdateTimeToLive",
            "dynamodb:PartiQLSelect",
            "dynamodb:PartiQLDelete",
            "dynamodb:ExportTableToPointInTime",
            "dynamodb:PutResourcePolicy",
            "dynamodb:CreateBackup",
        )
    },
    "send to a queue of another cluster": send("theirs-plan"),
    "send to a queue of another account": call("sqs", "SendMessage", QueueUrl="https://sqs/999999999999/ours-plan", MessageBody="{}"),
    "forge an interruption": send("ours-interruption"),
    "receive from a queue of another cluster": call("sqs", "ReceiveMessage", QueueUrl=f"https://sqs/{ACCOUNT}/theirs-plan"),
    **{
        f"{action} on a queue of ours": ask(action, queue_arn("plan"))
        for action in ("sqs:PurgeQueue", "sqs:DeleteQueue", "sqs:AddPermission", "sqs:SetQueueAttributes")
    },
    "decrypt with the key of the table": use_key("kms:Decrypt", TABLE_KEY, table=OUR_TABLE),
    "decrypt another table with the key of ours": use_key("kms:Decrypt", TABLE_KEY, "dynamodb", "orders"),
    "decrypt the table with another key": use_key("kms:Decrypt", OTHER_KEY, "dynamodb", OUR_TABLE),
    "make a data key with the key of the table": use_key("kms:GenerateDataKey", TABLE_KEY, "dynamodb", OUR_TABLE),
    **{f"{action} with the key of the queues": use_key(action, QUEUE_KEY) for action in ("kms:Decrypt", "kms:GenerateDataKey")},
    "decrypt a queue with another key": use_key("kms:Decrypt", OTHER_KEY, "sqs"),
    **{f"{action} with the key of the topic": use_key(action, TOPIC_KEY) for action in ("kms:Decrypt", "kms:GenerateDataKey")},
    "send to another topic": ask("sns:Publish", f"{TOPIC}-of-others"),
    **{f"{action} on the topic of the report": ask(action, TOPIC) for action in ("sns:Subscribe", "sns:SetTopicAttributes", "sns:DeleteTopic")},
    **{f"{action} for a key of ours": ask(action, QUEUE_KEY) for action in ("kms:CreateGrant", "kms:PutKeyPolicy", "kms:ScheduleKeyDeletion")},
    "read a parameter that is not Amazon's": call("ssm", "GetParameter", Name="/prod/password"),
    "read several parameters": call("ssm", "GetParameters", Names=["/aws/service/eks/x"]),
    "run a command on a node": ask("ssm:SendCommand", f"{EC2}:instance/i-ours", **resource_tags(OURS)),
    "open a session on a node": ask("ssm:StartSession", f"{EC2}:instance/i-ours", **resource_tags(OURS)),
    "find another cluster": call("eks", "DescribeCluster", name="theirs"),
    **{
        f"{action} on our cluster": ask(action, f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/{CLUSTER}")
        for action in ("eks:CreateAccessEntry", "eks:AssociateAccessPolicy", "eks:UpdateClusterConfig", "eks:DeleteCluster")
    },
    **{
        f"{operation} of {what}": access_policy(operation, **changed)
        for operation in ("AssociateAccessPolicy", "DisassociateAccessPolicy")
        for what, changed in {
            "another function": {"role": f"nodeless-{CLUSTER}-{REGION}-planner"},
            "the node role": {"role": "ours-node"},
            "the installer in another cluster": {"role": INSTALLER, "cluster": "theirs"},
            "the installer, with another policy": {"role": INSTALLER, "policy": "AmazonEKSSecretReaderPolicy"},
        }.items()
    },
    "associate a policy with namespaces": access_policy("AssociateAccessPolicy", INSTALLER, scope="namespace"),
    "read the zonal shifts of another cluster": call(
        "arc-zonal-shift", "GetManagedResource", resourceIdentifier=f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/theirs"
    ),
    "shift a zone away": ask(
        "arc-zonal-shift:StartZonalShift", **{"arc-zonal-shift:resourceidentifier": f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/{CLUSTER}"}
    ),
    "write another log": ask("logs:PutLogEvents", f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:theirs:log-stream:x"),
    "delete our log": ask("logs:DeleteLogGroup", f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:ours"),
    **{
        f"{action} on what is ours": ask(action, resource, **resource_tags(OURS))
        for action, resource in {
            "ec2:CreateLaunchTemplateVersion": f"{EC2}:launch-template/lt-ours",
            "ec2:ModifyLaunchTemplate": f"{EC2}:launch-template/lt-ours",
            "ec2:ModifyInstanceAttribute": f"{EC2}:instance/i-ours",
            "ec2:AssociateIamInstanceProfile": f"{EC2}:instance/i-ours",
            "ec2:GetPasswordData": f"{EC2}:instance/i-ours",
            "ec2:CreateSnapshot": f"{EC2}:volume/vol-ours",
            "ec2:DeleteVolume": f"{EC2}:volume/vol-ours",
            "ec2:AttachVolume": f"{EC2}:volume/vol-ours",
            "ec2:DeleteNetworkInterface": f"{EC2}:network-interface/eni-ours",
            "ec2:UnassignPrivateIpAddresses": f"{EC2}:network-interface/eni-ours",
        }.items()
    },
    "delete a network interface of another cluster": ask(
        "ec2:DeleteNetworkInterface", f"{EC2}:network-interface/eni-theirs", **resource_tags(THEIRS)
    ),
    "create a network interface": ask("ec2:CreateNetworkInterface", f"{EC2}:network-interface/*"),
    **{
        action: ask(action, resource)
        for action, resource in {
            "ec2:RequestSpotInstances": "*",
            "ec2:CreateVolume": f"{EC2}:volume/*",
            "ec2:DeleteFleets": f"{EC2}:fleet/*",
            "ec2:AuthorizeSecurityGroupIngress": f"{EC2}:security-group/sg-0a",
            "ec2:CreateImage": f"{EC2}:instance/i-theirs",
            "iam:CreateRole": f"{IAM}:role/x",
            "iam:AttachRolePolicy": NODE_ROLE,
            "iam:PutRolePolicy": NODE_ROLE,
            "iam:UpdateAssumeRolePolicy": NODE_ROLE,
            "iam:CreateAccessKey": f"{IAM}:user/x",
            "sts:AssumeRole": f"{IAM}:role/admin",
            "lambda:InvokeFunction": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:nodeless-ours-installer",
            "lambda:UpdateFunctionCode": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:nodeless-ours-planner",
            "events:PutTargets": f"arn:aws:events:{REGION}:{ACCOUNT}:rule/x",
            "secretsmanager:GetSecretValue": "*",
            "kms:Decrypt": "*",
            "s3:GetObject": "arn:aws:s3:::x/y",
        }.items()
    },
}

# Calls on nodeless's own resources, each by the function that makes it. They are allowed, so the attacks above are not denied only because
# the call is denied to everybody.
LEGITIMATE: dict[str, tuple[str, list[Request]]] = {
    "terminate an instance": ("lifecycle", call("ec2", "TerminateInstances", InstanceId=["i-ours"])),
    "delete a launch template": ("lifecycle", call("ec2", "DeleteLaunchTemplate", LaunchTemplateId="lt-ours")),
    "delete a launch template of a class that goes": ("catalog", call("ec2", "DeleteLaunchTemplate", LaunchTemplateId="lt-ours")),
    "create a fleet": ("lifecycle", launch("CreateFleet", OURS)),
    "create a fleet of spot instances": ("lifecycle", launch("CreateFleet", OURS, TargetCapacitySpecification={"DefaultTargetCapacityType": "spot"})),
    "run instances": ("lifecycle", launch("RunInstances", OURS)),
    "run instances with what other accounts share": (
        "lifecycle",
        launch(
            "RunInstances",
            OURS,
            SubnetId="subnet-0a",
            CapacityReservationSpecification={"CapacityReservationTarget": {"CapacityReservationId": "cr-0a"}},
            Placement={"GroupName": "near"},
        ),
    ),
    "create a launch template": (
        "lifecycle",
        call(
            "ec2",
            "CreateLaunchTemplate",
            LaunchTemplateName="x",
            TagSpecification=[{"ResourceType": "launch-template", "Tag": tag_list({**OURS, "nodeless.sh/last-used": "2026-01-01"})}],
        ),
    ),
    "name an instance": ("lifecycle", tag("i-ours", **{"Name": "n", "karpenter.sh/nodeclaim": "a", "eks:eks-cluster-name": CLUSTER})),
    "mark a launch template as used": ("lifecycle", tag("lt-ours", **{"nodeless.sh/last-used": "2026-01-01"})),
    "read the region": ("lifecycle", call("ec2", "DescribeInstances")),
    "read zonal shifts": (
        "lifecycle",
        call("arc-zonal-shift", "GetManagedResource", resourceIdentifier=f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/{CLUSTER}"),
    ),
    "make the role of spot launches": (
        "lifecycle",
        ask(
            "iam:CreateServiceLinkedRole",
            SPOT_ROLE,
            **{"iam:awsservicename": "spot.amazonaws.com"},
        ),
    ),
    "create a profile": ("catalog", profile("CreateInstanceProfile", "new", Tags=tag_list(profile_tags(CLUSTER)))),
    "give a profile its role": ("catalog", profile("AddRoleToInstanceProfile", "ours", RoleName="ours-node")),
    "take a profile's role": ("catalog", profile("RemoveRoleFromInstanceProfile", "ours", RoleName="ours-node")),
    "delete a profile": ("catalog", profile("DeleteInstanceProfile", "ours")),
    "read Amazon's parameters": ("catalog", call("ssm", "GetParameter", Name="/aws/service/eks/x")),
    "read Reserved Instances": ("catalog", call("ec2", "DescribeReservedInstances")),
    "read Savings Plans": ("catalog", call("savingsplans", "DescribeSavingsPlans", "us-east-1")),
    "read rates of a Savings Plan": ("catalog", call("savingsplans", "DescribeSavingsPlanRates", "us-east-1", savingsPlanId="p")),
    "read prices": ("catalog", call("pricing", "GetProducts", "us-east-1")),
    "query claims": ("planner", query(CLUSTER)),
    "query a part of the claims": ("planner", query(f"{CLUSTER}#0")),
    "write claims": (
        "planner",
        call(
            "dynamodb",
            "TransactWriteItems",
            TransactItems=[
                {"Put": {"TableName": "nodeless", "Item": key(CLUSTER)}},
                {"Update": {"TableName": "nodeless", "Key": key(f"{CLUSTER}#1")}},
            ],
        ),
    ),
    "write a batch": ("catalog", call("dynamodb", "BatchWriteItem", RequestItems={"nodeless": [{"PutRequest": {"Item": key(CLUSTER)}}]})),
    "find the claim of an instance": ("interruption", FIND_CLAIM),
    "wake the planner": ("wake", send("ours-plan")),
    "encrypt a message": ("wake", use_key("kms:GenerateDataKey", QUEUE_KEY, "sqs") + use_key("kms:Decrypt", QUEUE_KEY, "sqs")),
    "decrypt a message": ("lifecycle", use_key("kms:Decrypt", QUEUE_KEY, "sqs")),
    "send the report": ("catalog", ask("sns:Publish", TOPIC)),
    "encrypt the report": ("catalog", use_key("kms:GenerateDataKey", TOPIC_KEY, "sns") + use_key("kms:Decrypt", TOPIC_KEY, "sns")),
    "find the cluster": ("installer", call("eks", "DescribeCluster", name=CLUSTER)),
    "stop being cluster-admin": ("installer", access_policy("DisassociateAccessPolicy", INSTALLER)),
}

# Calls that only some functions may make: attacks with the roles of the others.
OF_FEW: dict[str, tuple[set[str], list[Request]]] = {
    "send to the claims queue": ({"planner", "lifecycle", "interruption", "catalog"}, send("ours-claims")),
    "send to the plan queue": ({"planner", "lifecycle", "interruption", "catalog", "wake"}, send("ours-plan")),
    "send to the catalog queue": ({"planner"}, send("ours-catalog")),
    "take refreshes": ({"catalog"}, call("sqs", "ReceiveMessage", QueueUrl=f"https://sqs/{ACCOUNT}/ours-catalog")),
    "take plans": ({"planner"}, call("sqs", "ReceiveMessage", QueueUrl=f"https://sqs/{ACCOUNT}/ours-plan")),
    "take claims": ({"lifecycle"}, call("sqs", "ReceiveMessage", QueueUrl=f"https://sqs/{ACCOUNT}/ours-claims")),
    "terminate our own instance": ({"lifecycle"}, call("ec2", "TerminateInstances", InstanceId=["i-ours"])),
    "stop our own instance": ({"lifecycle"}, call("ec2", "StopInstances", InstanceId=["i-ours"])),
    "start our own instance": ({"lifecycle"}, call("ec2", "StartInstances", InstanceId=["i-ours"])),
    "reboot our own instance": ({"lifecycle"}, call("ec2", "RebootInstances", InstanceId=["i-ours"])),
    "launch": ({"lifecycle"}, launch("CreateFleet", OURS)),
    "delete our own launch template": ({"lifecycle", "catalog"}, call("ec2", "DeleteLaunchTemplate", LaunchTemplateId="lt-ours")),
    "change our own profile": ({"catalog"}, profile("DeleteInstanceProfile", "ours")),
    "find the claim of an instance": ({"lifecycle", "interruption"}, FIND_CLAIM),
    "become cluster-admin": ({"installer"}, access_policy("AssociateAccessPolicy", INSTALLER)),
    "stop the installer from being cluster-admin": ({"installer"}, access_policy("DisassociateAccessPolicy", INSTALLER)),
    "send the report of costs": ({"catalog"}, ask("sns:Publish", TOPIC)),
    "read the state": ({"planner", "lifecycle", "interruption", "catalog"}, query(CLUSTER)),
    "read the account's Savings Plans": ({"catalog"}, call("savingsplans", "DescribeSavingsPlans", "us-east-1")),
}

# Calls that are allowed as documented in docs/reference/security.md, because IAM cannot distinguish them or because a user may intend them.
NOT_HELD_BACK: dict[str, tuple[str, list[Request]]] = {
    "launch into any subnet, with any security group and image": (
        "lifecycle",
        launch("RunInstances", OURS, SubnetId="subnet-theirs", SecurityGroupId=["sg-theirs"], ImageId="ami-theirs"),
    ),
    "add another cluster's ownership tag to a launch of ours": (
        "lifecycle",
        launch("RunInstances", {**OURS, "kubernetes.io/cluster/theirs": "owned"}),
    ),
    "become cluster-admin of our own cluster": ("installer", access_policy("AssociateAccessPolicy", INSTALLER)),
    "terminate every node of our own cluster": ("lifecycle", call("ec2", "TerminateInstances", InstanceId=["i-ours"])),
    "find out which claim of another cluster has an instance": (
        "interruption",
        call(
            "dynamodb",
            "Query",
            TableName="nodeless",
            IndexName="instance",
            KeyConditionExpression="instanceId = :i",
            ExpressionAttributeValues={":i": {"S": "i-theirs"}},
        ),
    ),
    "read what other clusters have in EC2": ("catalog", call("ec2", "DescribeLaunchTemplates")),
    "read an instance profile of another cluster": ("catalog", profile("GetInstanceProfile", "theirs")),
}

# The registrations of the clusters that share functions.
REGISTRY = "#clusters"
REGISTRATION_ATTACKS = {
    f"{operation} of a registration": item(operation, REGISTRY) for operation in ("GetItem", "PutItem", "UpdateItem", "DeleteItem")
}

# Calls that functions shared by two clusters may make, as documented in docs/reference/security.md, and that functions of one cluster may
# not.
BETWEEN_SIBLINGS: dict[str, tuple[str, list[Request]]] = {
    "launch a node of ours with the sibling's node role": (
        "lifecycle",
        launch("RunInstances", OURS, None, ImageId="ami-0a", IamInstanceProfile={"Name": "sibling"}),
    ),
    "terminate an instance of the sibling": ("lifecycle", call("ec2", "TerminateInstances", InstanceId=["i-sibling"])),
    "read the items of the sibling": ("planner", query(SIBLING)),
}


@pytest.fixture(scope="module")
def both(mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> Rendered:
    return render(mirror, tmp_path_factory.mktemp("rendered"))


@pytest.fixture(scope="module")
def rendered(both: Rendered) -> dict[str, Policy]:
    return both.outside


def made_by(function: str, questions: list[Request]) -> list[Request]:
    """Adds the source ARN of a function, as in calls by its own code."""
    source = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:nodeless-{CLUSTER}-{function}"
    return [replace(q, context={**q.context, "lambda:sourcefunctionarn": source}) for q in questions]


def allowed(policies: Mapping[str, Policy]) -> set[str]:
    """The attacks that a role allows, each with the function whose role it is."""
    pairs = ((name, function) for name in ATTACKS for function in policies)
    return {f"{function}: {name}" for name, function in pairs if not policies[function].prevents(made_by(function, ATTACKS[name]))}


def test_every_attack_is_denied_to_every_role(rendered: dict[str, Policy]) -> None:
    assert allowed(rendered) == set()


def test_inside_a_vpc_awss_policy_adds_nothing_but_descriptions(both: Rendered) -> None:
    assert allowed(both.inside) == {f"{function}: read another region's subnets" for function in set(FUNCTIONS) - {"wake"}}


def test_inside_a_vpc_lambda_itself_makes_interfaces_and_writes_logs(both: Rendered) -> None:
    interface = ask("ec2:CreateNetworkInterface", f"{EC2}:network-interface/*")
    assert {function for function, policy in both.inside.items() if not policy.denied(interface)} == set(FUNCTIONS) - {"wake"}
    log = ask("logs:PutLogEvents", f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:ours:log-stream:x")
    assert not [function for function, policy in both.inside.items() if policy.denied(made_by(function, log))]


def weakened(policy: Policy) -> Iterator[tuple[str, Policy]]:
    """The policy without one of its conditions, without one of its Denies, or with a statement that has no condition for every resource."""
    for index, statement in enumerate(policy.statements):
        others = policy.statements[:index] + policy.statements[index + 1 :]
        if not statement.allow:
            yield f"{statement.name} left out", Policy(others)
            continue
        for condition in statement.conditions:
            rest = replace(statement, conditions=tuple(c for c in statement.conditions if c is not condition))
            yield f"{statement.name} without {condition.quantifier}{condition.operator} of {condition.key}", Policy((*others, rest))
        if not statement.conditions and statement.resources != ("*",):
            yield f"{statement.name} for every resource", Policy((*others, replace(statement, resources=("*",))))


def test_no_policy_can_be_weakened_unnoticed(both: Rendered) -> None:
    """Every condition, every Deny and every resource that stands alone denies some attack."""
    unnoticed: set[str] = set()
    for policies in (both.outside, both.inside):
        for function, policy in policies.items():
            foreign = {name: questions for name, (few, questions) in OF_FEW.items() if function not in few}
            attacks = [made_by(function, questions) for questions in (ATTACKS | foreign).values()]
            for what, weaker in weakened(policy):
                if all(weaker.prevents(questions) for questions in attacks):
                    unnoticed.add(f"{function}: {what}")
    # The catalog may read all profiles, so this change allows nothing more.
    assert unnoticed == {"catalog: ReadInstanceProfiles for every resource"}


def test_what_few_may_do_is_denied_to_the_others(rendered: dict[str, Policy]) -> None:
    for name, (few, questions) in OF_FEW.items():
        assert {function for function, policy in rendered.items() if not policy.denied(questions)} == few, name
        assert {function for function, policy in rendered.items() if not policy.prevents(questions)} == few, name


@pytest.mark.parametrize("name", LEGITIMATE)
def test_the_same_on_what_is_ours_is_allowed(rendered: dict[str, Policy], name: str) -> None:
    function, questions = LEGITIMATE[name]
    assert questions
    assert not rendered[function].denied(questions)


def test_the_key_of_the_table_decrypts_it_for_the_functions_that_read_it(both: Rendered) -> None:
    decrypt = use_key("kms:Decrypt", TABLE_KEY, "dynamodb", OUR_TABLE)
    assert {function for function, policy in both.outside.items() if not policy.denied(decrypt)} == {"planner", "lifecycle", "interruption", "catalog"}


@pytest.mark.parametrize("operation", ["CreateFleet", "RunInstances"])
def test_a_launch_does_not_rely_on_tags_of_its_template(rendered: dict[str, Policy], operation: str) -> None:
    """AWS does not document whether they are request tags: a launch that has them nowhere else may be denied, and may be allowed."""
    for tagged in (("fleet",), ("fleet", "instance"), ("fleet", "volume")):
        questions = launch(operation, OURS, "lt-tagging", only=tagged)
        assert rendered["lifecycle"].denied(questions), f"only a template tags what {operation} makes besides {tagged}"
        assert not rendered["lifecycle"].prevents(questions), "an attack must be denied by every reading"
    assert not rendered["lifecycle"].denied(launch(operation, OURS, "lt-tagging", only=("fleet", "instance", "volume")))


@pytest.mark.parametrize("name", NOT_HELD_BACK)
def test_what_iam_does_not_prevent(rendered: dict[str, Policy], name: str) -> None:
    function, questions = NOT_HELD_BACK[name]
    assert not rendered[function].denied(questions), "IAM holds this back now: take it out of docs/reference/security.md"


def test_functions_that_clusters_share_attack_no_other_cluster(both: Rendered) -> None:
    attacks = ATTACKS | REGISTRATION_ATTACKS
    for policies in (both.shared, both.both_clusters):
        pairs = ((name, function) for name in attacks for function in policies)
        assert not {f"{function}: {name}" for name, function in pairs if not policies[function].prevents(attacks[name])}


def test_functions_that_clusters_share_may_do_the_same_for_each(both: Rendered) -> None:
    for name, (function, questions) in LEGITIMATE.items():
        if function in both.shared:
            assert not both.shared[function].denied(questions), name
    for name, (few, questions) in OF_FEW.items():
        assert {function for function, policy in both.shared.items() if not policy.denied(questions)} == few & set(both.shared), name
    assert all(not policy.denied(query(REGISTRY)) for policy in both.shared.values())
    assert all(policy.denied(query(REGISTRY)) for policy in both.outside.values()), "one cluster alone has no registrations to read"


def test_no_policy_for_shared_functions_can_be_weakened_unnoticed(both: Rendered) -> None:
    unnoticed: set[str] = set()
    for function, policy in both.shared.items():
        foreign = {name: questions for name, (few, questions) in OF_FEW.items() if function not in few}
        for what, weaker in weakened(policy):
            if all(weaker.prevents(questions) for questions in (ATTACKS | REGISTRATION_ATTACKS | foreign).values()):
                unnoticed.add(f"{function}: {what}")
    assert unnoticed == {"catalog: ReadInstanceProfiles for every resource"}


@pytest.mark.parametrize("name", BETWEEN_SIBLINGS)
def test_what_iam_does_not_prevent_between_clusters_that_share_functions(both: Rendered, name: str) -> None:
    function, questions = BETWEEN_SIBLINGS[name]
    assert not both.both_clusters[function].denied(questions), "IAM holds this back now: take it out of docs/reference/security.md"
    assert both.outside[function].denied(questions), "functions of its own must not do this"


def test_an_attack_that_a_policy_allows_is_found() -> None:
    lax = Policy.parse('{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "ec2:TerminateInstances", "Resource": "*"}}')
    found = {name for name, questions in ATTACKS.items() if not lax.prevents(questions)}
    assert found == {name for name in ATTACKS if name.startswith("terminate ")}
    assert lax.decide(ATTACKS["terminate an instance of no cluster"][0]) is Decision.ALLOWED


def test_the_documentation_lists_only_actions_that_are_allowed(both: Rendered) -> None:
    assert set(both.inside) == set(FUNCTIONS)
    for function, actions in documented_as_unused().items():
        stale = actions - both.inside[function].allowed_actions()
        assert not stale, f"docs/reference/unused-aws.csv explains rights that {function} does not have"
