"""Calls that ask AWS directly whether an assumption of docs/reference/aws.csv holds. The probes cost less than a cent, and remove what they make."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from . import fleet_probe, limits
from .answers import PARTITION, forget, put, refused, template
from .hour import Hour, Step


def everything(hour: Hour, step: Step) -> None:
    """All probes. One that is answered otherwise than assumed is an observation, not a failure."""
    for assumption, probe in (PROBES | limits.PROBES).items():
        holds: bool | None
        try:
            holds, seen = probe(hour)
        except (BotoCoreError, ClientError) as error:
            holds, seen = None, f"the probe was refused: {error}"
        except AssertionError as error:
            holds, seen = None, f"the probe could not be made: {error}"
        hour.observe(assumption, holds, seen)
        step.seen.append(f"{assumption}: {'as assumed' if holds else 'not tried' if holds is None else 'NOT as assumed'}: {seen}")
    fleet_probe.run(hour, step)


def token_with_another_request(hour: Hour) -> tuple[bool, str]:
    client, token = hour.place.client("dynamodb"), f"probe-{time.time_ns()}"
    try:
        client.transact_write_items(TransactItems=[put(hour, "token", n={"N": "1"})], ClientRequestToken=token)
        client.transact_write_items(TransactItems=[put(hour, "token", n={"N": "1"})], ClientRequestToken=token)
        return refused(
            lambda: client.transact_write_items(TransactItems=[put(hour, "token", n={"N": "2"})], ClientRequestToken=token),
            "IdempotentParameterMismatchException",
        )
    finally:
        forget(hour, "token")


def cancelled_with_reasons(hour: Hour) -> tuple[bool, str]:
    client, table = hour.place.client("dynamodb"), f"nodeless-{hour.place.cluster}"
    check = {"ConditionCheck": {"TableName": table, "Key": {"pk": {"S": PARTITION}, "sk": {"S": "absent"}}, "ConditionExpression": "attribute_exists(pk)"}}
    try:
        client.transact_write_items(TransactItems=[put(hour, "cancelled"), check])
    except client.exceptions.TransactionCanceledException as cancelled:
        codes = [reason["Code"] for reason in cancelled.response["CancellationReasons"]]
        return codes == ["None", "ConditionalCheckFailed"], f"reasons in the order of the items: {codes}"
    finally:
        forget(hour, "cancelled")
    return False, "it was not cancelled"


def template_of_one_name_twice(hour: Hour) -> tuple[bool, str]:
    name = template(hour)["LaunchTemplateName"]
    create = hour.place.client("ec2").create_launch_template
    return refused(lambda: create(LaunchTemplateName=name, LaunchTemplateData={"InstanceType": "t3.nano"}), "InvalidLaunchTemplateName.AlreadyExistsException")


def dry_run(hour: Hour) -> tuple[bool, str]:
    """Another instance like one that runs, from its own template."""
    ec2 = hour.place.client("ec2")
    instances = hour.look()
    assert instances, "there is no instance whose template, type and subnet could be taken"
    one = instances[0]
    tags = {t["Key"]: t["Value"] for t in one["Tags"]}
    assert "aws:ec2launchtemplate:id" in tags, "the instance does not state which template it came from"
    # Our templates list network interfaces, so the subnet is stated there; and those for spot tag the spot request.
    interface = {"DeviceIndex": 0, "SubnetId": one["SubnetId"], "Groups": [group["GroupId"] for group in one["SecurityGroups"]]}
    market = {"InstanceMarketOptions": {"MarketType": "spot"}} if one.get("InstanceLifecycle") == "spot" else {}

    def call() -> Any:
        launch = {"LaunchTemplateId": tags["aws:ec2launchtemplate:id"], "Version": tags["aws:ec2launchtemplate:version"]}
        return ec2.run_instances(DryRun=True, MinCount=1, MaxCount=1, LaunchTemplate=launch, InstanceType=one["InstanceType"], NetworkInterfaces=[interface], **market)

    return refused(call, "DryRunOperation")


def unknown_instance(hour: Hour) -> tuple[bool, str]:
    ec2, unknown = hour.place.client("ec2"), "i-00000000000000000"
    holds, seen = refused(lambda: ec2.describe_instances(InstanceIds=[unknown]), "InvalidInstanceID.NotFound")
    filtered = ec2.describe_instances(Filters=[{"Name": "instance-id", "Values": [unknown]}])["Reservations"]
    return holds and not filtered, f"{seen}; by a filter {len(filtered)} reservations"


def recursion_is_allowed(hour: Hour) -> tuple[None, str]:
    """No loop is provoked: a thousand invocations prove less than what the functions are allowed."""
    client = hour.place.client("lambda")
    settings = {f: client.get_function_recursion_config(FunctionName=f"nodeless-{hour.place.cluster}-{f}")["RecursiveLoop"] for f in ("planner", "lifecycle", "interruption", "catalog")}
    return None, f"no loop was provoked; what the functions are set to: {json.dumps(settings)}"


def user_data_of_17_kilobytes(hour: Hour) -> tuple[bool, str]:
    """A dry run: where it is accepted, nothing is launched."""
    ec2, instances = hour.place.client("ec2"), hour.look()
    assert instances, "there is no instance whose image and subnet could be taken"
    one = instances[0]
    interface = {"DeviceIndex": 0, "SubnetId": one["SubnetId"], "Groups": [group["GroupId"] for group in one["SecurityGroups"]]}

    def call() -> Any:
        return ec2.run_instances(
            DryRun=True, MinCount=1, MaxCount=1, ImageId=one["ImageId"], InstanceType=one["InstanceType"], NetworkInterfaces=[interface], UserData="#" * 17 * 1024
        )

    return refused(call, "InvalidUserData.Malformed", "InvalidParameterValue")


def simulated_rights(hour: Hour) -> tuple[bool, str]:
    """IAM's own simulator evaluates the policy of lifecycle: for instances with the tags of the cluster, of another one, and of a node group."""
    iam, sts = hour.place.client("iam"), hour.place.client("sts")
    caller = sts.get_caller_identity()
    arn, account = caller["Arn"], caller["Account"]
    functions = hour.place.client("lambda")
    role = functions.get_function_configuration(FunctionName=f"nodeless-{hour.place.cluster}-lifecycle")["Role"]
    instance = f"arn:{arn.split(':')[1]}:ec2:{hour.place.region}:{account}:instance/i-00000000000000000"
    answers = []
    for expected, cluster, pool in [("allowed", hour.place.cluster, "default"), ("implicitDeny", "another", "default"), ("implicitDeny", hour.place.cluster, "")]:
        tags = {f"kubernetes.io/cluster/{cluster}": "owned"} | ({"karpenter.sh/nodepool": pool} if pool else {})
        context = [{"ContextKeyName": f"aws:ResourceTag/{key}", "ContextKeyValues": [value], "ContextKeyType": "string"} for key, value in tags.items()]
        simulated = iam.simulate_principal_policy(PolicySourceArn=role, ActionNames=["ec2:TerminateInstances"], ResourceArns=[instance], ContextEntries=context)
        answers.append((expected, simulated["EvaluationResults"][0]["EvalDecision"]))
    seen = f"IAM's simulator, TerminateInstances by lifecycle: {', '.join(a for _, a in answers)} for an instance of ours, of another cluster, and of a node group"
    return all(expected == answer for expected, answer in answers), seen


PROBES: dict[str, Callable[[Hour], tuple[bool | None, str]]] = {
    "ddb-client-token": token_with_another_request,
    "ddb-cancellation-reasons": cancelled_with_reasons,
    "ec2-template-name-unique": template_of_one_name_twice,
    "ec2-dry-run": dry_run,
    "ec2-unknown-instance": unknown_instance,
    "ec2-user-data-16k": user_data_of_17_kilobytes,
    "iam-conditions": simulated_rights,
    "lambda-recursion": recursion_is_allowed,
}
