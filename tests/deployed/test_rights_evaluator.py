"""The tests' IAM, rule by rule, and how calls are read: no emulator, no network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse

from tools import calls
from tools.authorization import Profile, Tags, Unknown, requests
from tools.calls import Call
from tools.iam import READINGS, Decision, Policy, Reading, Request, Unsupported

ACCOUNT = "111122223333"
ALLOWED, DENIED, FORBIDDEN = Decision.ALLOWED, Decision.DENIED, Decision.FORBIDDEN


def policy(*statements: Mapping[str, object]) -> Policy:
    return Policy.parse(json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **s} for s in statements]}))


def allow(action: object = "s:Act", resource: object = "*", **more: object) -> dict[str, object]:
    return {"Action": action, "Resource": resource, **more}


def under(condition: Mapping[str, object], **context: object) -> Decision:
    """The decision of a statement with this condition on a request with these values: region, tag (of the request), keys (of its tags)."""
    names = {"region": "aws:requestedregion", "tag": "aws:requesttag/team", "keys": "aws:tagkeys", "cluster": "arc-zonal-shift:resourceidentifier"}
    return policy(allow(Condition=condition)).decide(Request("s:Act", "r", {names[name]: value for name, value in context.items()}))


class TestStatements:
    def test_what_nothing_allows_is_denied(self) -> None:
        assert policy().decide(Request("s:Act", "r")) is DENIED
        assert policy(allow("s:Other")).decide(Request("s:Act", "r")) is DENIED
        assert policy(allow(resource="other")).decide(Request("s:Act", "r")) is DENIED

    def test_a_deny_goes_before_every_allow(self) -> None:
        both = [allow(), allow(Effect="Deny")]
        assert policy(*both).decide(Request("s:Act", "r")) is FORBIDDEN
        assert policy(*reversed(both)).decide(Request("s:Act", "r")) is FORBIDDEN
        condition = {"StringEquals": {"aws:RequestedRegion": "a"}}
        assert policy(allow(), allow(Effect="Deny", Condition=condition)).decide(Request("s:Act", "r")) is ALLOWED

    def test_policies_of_a_role_count_together(self) -> None:
        documents = [json.dumps({"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": a, "Resource": "*"}}) for a in ("s:A", "s:B")]
        assert Policy.parse(*documents).allowed_actions() == {"s:A", "s:B"}

    @pytest.mark.parametrize(
        ("pattern", "decision"), [("s:Act", ALLOWED), ("S:ACT", ALLOWED), ("s:A?t", ALLOWED), ("s:*", ALLOWED), ("*", ALLOWED), ("s:A", DENIED)]
    )
    def test_actions_are_matched_in_any_case_with_wildcards(self, pattern: str, decision: Decision) -> None:
        assert policy(allow(pattern)).decide(Request("s:Act", "r")) is decision

    @pytest.mark.parametrize(
        ("pattern", "decision"),
        [("arn:aws:ec2:r:1:instance/*", ALLOWED), ("arn:aws:ec2:r:*:instance/i-?", ALLOWED), ("*", ALLOWED), ("arn:aws:ec2:r:1:instance/I-1", DENIED),
         ("arn:aws:ec2:r:1:instance/", DENIED), ("arn:aws:ec2:r::instance/*", DENIED)],
    )  # fmt: skip
    def test_resources_are_matched_by_case_with_wildcards(self, pattern: str, decision: Decision) -> None:
        assert policy(allow(resource=pattern)).decide(Request("s:Act", "arn:aws:ec2:r:1:instance/i-1")) is decision

    def test_lists_of_actions_and_resources_are_alternatives(self) -> None:
        assert policy(allow(["s:Other", "s:Act"], ["other", "r"])).decide(Request("s:Act", "r")) is ALLOWED

    def test_not_action_and_not_resource_mean_all_others(self) -> None:
        anything_else = policy({"NotAction": ["s:Act"], "Resource": "*"})
        assert anything_else.decide(Request("s:Act", "r")) is DENIED
        assert anything_else.decide(Request("s:Other", "r")) is ALLOWED
        anywhere_else = policy({"Action": "*", "NotResource": "r*"})
        assert anywhere_else.decide(Request("s:Act", "r1")) is DENIED
        assert anywhere_else.decide(Request("s:Act", "other")) is ALLOWED


class TestConditions:
    def test_operators_and_keys_must_all_hold_and_one_value_must(self) -> None:
        condition = {"StringEquals": {"aws:RequestedRegion": ["a", "b"], "aws:RequestTag/team": "x"}, "StringLike": {"aws:RequestTag/team": "?"}}
        assert under(condition, region="b", tag="x") is ALLOWED
        assert under(condition, region="c", tag="x") is DENIED
        assert under(condition, region="b", tag="y") is DENIED
        assert under(condition, region="b") is DENIED

    def test_names_of_keys_are_matched_in_any_case_and_values_are_not(self) -> None:
        assert under({"StringEquals": {"AWS:requesttag/TEAM": "x"}}, tag="x") is ALLOWED
        assert under({"StringEquals": {"aws:RequestTag/team": "X"}}, tag="x") is DENIED
        assert under({"StringEqualsIgnoreCase": {"aws:RequestTag/team": "X"}}, tag="x") is ALLOWED

    @pytest.mark.parametrize("operator", ["StringEquals", "StringLike", "StringEqualsIgnoreCase", "ArnEquals", "ArnLike", "Bool"])
    def test_a_key_that_is_absent_matches_nothing(self, operator: str) -> None:
        value = "true" if operator == "Bool" else "*"
        assert under({operator: {"aws:RequestTag/team": value}}) is DENIED
        assert under({f"{operator}IfExists": {"aws:RequestTag/team": value}}) is ALLOWED

    @pytest.mark.parametrize("operator", ["StringNotEquals", "StringNotLike", "StringNotEqualsIgnoreCase", "ArnNotEquals", "ArnNotLike"])
    def test_a_negated_operator_holds_for_a_key_that_is_absent(self, operator: str) -> None:
        assert under({operator: {"aws:RequestTag/team": "*"}}) is ALLOWED

    def test_if_exists_looks_at_a_key_that_is_there(self) -> None:
        assert under({"StringEqualsIfExists": {"aws:RequestTag/team": "x"}}, tag="y") is DENIED
        assert under({"StringEqualsIfExists": {"aws:RequestTag/team": "x"}}, tag="x") is ALLOWED

    def test_a_negated_operator_wants_none_of_its_values(self) -> None:
        assert under({"StringNotEquals": {"aws:RequestTag/team": ["x", "y"]}}, tag="y") is DENIED
        assert under({"StringNotEquals": {"aws:RequestTag/team": ["x", "y"]}}, tag="z") is ALLOWED

    def test_wildcards_count_in_like_alone(self) -> None:
        assert under({"StringLike": {"aws:RequestTag/team": "a*c?"}}, tag="abbcd") is ALLOWED
        assert under({"StringEquals": {"aws:RequestTag/team": "a*"}}, tag="ab") is DENIED

    def test_like_with_a_star_alone_holds_for_an_empty_value(self) -> None:
        assert under({"StringLike": {"aws:RequestTag/team": "*"}}, tag="") is ALLOWED

    def test_parts_of_an_arn_are_matched_one_by_one(self) -> None:
        arn = "arn:aws:eks:eu-west-1:111122223333:cluster/a"
        for operator in ("ArnEquals", "ArnLike"):
            assert under({operator: {"arc-zonal-shift:ResourceIdentifier": "arn:aws:eks:*:111122223333:cluster/?"}}, cluster=arn) is ALLOWED
            assert under({operator: {"arc-zonal-shift:ResourceIdentifier": "arn:*:cluster/a"}}, cluster=arn) is DENIED
        assert under({"ArnNotLike": {"arc-zonal-shift:ResourceIdentifier": "arn:aws:eks:*:*:cluster/b"}}, cluster=arn) is ALLOWED

    def test_bool_compares_in_any_case(self) -> None:
        assert under({"Bool": {"aws:RequestTag/team": True}}, tag="True") is ALLOWED
        assert under({"Bool": {"aws:RequestTag/team": "false"}}, tag="true") is DENIED

    def test_null_asks_whether_a_key_is_absent(self) -> None:
        assert under({"Null": {"aws:RequestTag/team": "true"}}) is ALLOWED
        assert under({"Null": {"aws:RequestTag/team": "true"}}, tag="x") is DENIED
        assert under({"Null": {"aws:TagKeys": "false"}}) is DENIED
        assert under({"Null": {"aws:TagKeys": "false"}}, keys=("x",)) is ALLOWED
        assert under({"Null": {"aws:TagKeys": "false"}}, keys=()) is DENIED

    def test_for_all_values_wants_every_value_and_holds_for_none(self) -> None:
        condition = {"ForAllValues:StringEquals": {"aws:TagKeys": ["a", "b"]}}
        assert under(condition, keys=("a", "b")) is ALLOWED
        assert under(condition, keys=("a", "c")) is DENIED
        assert under(condition) is ALLOWED
        assert under(condition, keys=()) is ALLOWED
        assert under({**condition, "Null": {"aws:TagKeys": "false"}}) is DENIED

    def test_for_any_value_wants_one_value_and_does_not_hold_for_none(self) -> None:
        condition = {"ForAnyValue:StringLike": {"aws:TagKeys": ["a*"]}}
        assert under(condition, keys=("b", "ab")) is ALLOWED
        assert under(condition, keys=("b",)) is DENIED
        assert under(condition) is DENIED
        assert under({"ForAnyValue:StringNotEquals": {"aws:TagKeys": ["a"]}}) is DENIED
        assert under({"ForAnyValue:StringNotEquals": {"aws:TagKeys": ["a"]}}, keys=("a", "b")) is ALLOWED
        assert under({"ForAllValues:StringNotEquals": {"aws:TagKeys": ["a"]}}, keys=("a", "b")) is DENIED


class TestWhatIsNotKnown:
    @pytest.mark.parametrize(
        "statement",
        [
            {"Action": "s:Act"},
            {"Action": "s:Act", "NotAction": "s:Act", "Resource": "*"},
            allow(Principal="*"),
            allow(Effect="Maybe"),
            allow(resource="arn:aws:s3:::${aws:username}"),
            allow(Condition={"NumericLessThan": {"aws:RequestedRegion": "1"}}),
            allow(Condition={"StringEquals": {"ec2:InstanceType": "m5.large"}}),
            allow(Condition={"StringEquals": {"aws:TagKeys": "a"}}),
            allow(Condition={"ForAllValues:StringEquals": {"aws:RequestedRegion": "a"}}),
            allow(Condition={"ForSomeValues:StringEquals": {"aws:TagKeys": "a"}}),
            allow(Condition={"NullIfExists": {"aws:TagKeys": "true"}}),
            allow(Condition={"StringEquals": {"aws:RequestedRegion": 1}}),
        ],
        ids=json.dumps,
    )
    def test_is_an_error_and_never_an_allow(self, statement: Mapping[str, object]) -> None:
        with pytest.raises(Unsupported):
            policy(statement)

    def test_so_is_another_version(self) -> None:
        with pytest.raises(Unsupported):
            Policy.parse('{"Version": "2008-10-17", "Statement": []}')

    def test_so_is_a_request_with_a_key_that_no_policy_may_name(self) -> None:
        with pytest.raises(Unsupported):
            Request("s:Act", "r", {"ec2:instancetype": "m5.large"})
        with pytest.raises(Unsupported):
            Request("s:Act", "r", {"aws:tagkeys": "one"})

    def test_so_are_tags_of_resources_whose_tags_are_not_read(self) -> None:
        tagged = policy(allow(["sqs:SendMessage", "ec2:TerminateInstances"], Condition={"StringNotEquals": {"aws:ResourceTag/team": "x"}}))
        assert tagged.decide(Request("ec2:TerminateInstances", "i")) is ALLOWED
        with pytest.raises(Unsupported):
            tagged.decide(Request("sqs:SendMessage", "q"))

    def test_so_are_actions_that_are_allowed_by_a_pattern_when_they_are_counted(self) -> None:
        with pytest.raises(Unsupported):
            policy(allow("s:*")).allowed_actions()


class Account:
    """An account with an instance, a launch template and an instance profile of this cluster."""

    id = ACCOUNT
    ours = {"kubernetes.io/cluster/ours": "owned"}

    def tags(self, resource_id: str) -> Tags:
        return self.ours if resource_id in ("i-0a", "lt-0a") else {}

    def template(self, name_or_id: str) -> tuple[str, Mapping[str, Any]]:
        assert name_or_id in ("nodeless/a", "lt-0a")
        return "lt-0a", {
            "ImageId": "ami-0a",
            "IamInstanceProfile": {"Name": "nodes"},
            "NetworkInterfaces": [{"Groups": ["sg-0a"]}],
            "BlockDeviceMappings": [{"Ebs": {"SnapshotId": "snap-0a"}}],
            "CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": "cr-0a"}},
            "TagSpecifications": [tag_specification(kind, kind) for kind in ("network-interface", "spot-instances-request", "volume")],
        }

    def profile(self, name: str) -> Profile:
        assert name == "nodes"
        return Profile(f"arn:aws:iam::{ACCOUNT}:instance-profile/nodes", self.role_arn("node"), self.ours)

    def role_arn(self, name: str) -> str:
        return f"arn:aws:iam::{ACCOUNT}:role/{name}"

    def partition_key(self, table: str, index: str | None) -> str:
        return {None: "pk", "instance": "instanceId"}[index]


def sent(service: str, operation: str, **parameters: object) -> Call:
    """The request of an SDK for an operation, as the proxy reads it."""
    client = boto3.client(service, region_name="eu-west-1", aws_access_key_id="planner", aws_secret_access_key="s", endpoint_url="http://127.0.0.1:1")
    found: list[Call] = []

    def take(request: Any, **_: object) -> AWSResponse:
        headers = {name: value.decode() if isinstance(value, bytes) else value for name, value in request.headers.items()}
        body = request.body.encode() if isinstance(request.body, str) else request.body or b""
        found.append(calls.read(request.method, request.url.removeprefix("http://127.0.0.1:1"), headers, body))
        raise Sent

    client.meta.events.register("before-send", take)
    with pytest.raises(Sent):
        getattr(client, operation)(**parameters)
    return found[0]


class Sent(Exception):
    """A request was read; it is not sent."""


OF_EVERY_CALL = {"aws:requestedregion", "lambda:sourcefunctionarn"}


def asked(call: Call) -> dict[tuple[str, str], dict[str, object]]:
    """The context of a call's questions by action and resource, without the region and the function, which all questions have."""
    found = requests(call, Account())
    function = f"arn:aws:lambda:eu-west-1:{ACCOUNT}:function:planner"
    assert all((r.context["aws:requestedregion"], r.context["lambda:sourcefunctionarn"]) == ("eu-west-1", function) for r in found)
    return {
        (r.action, r.resource.removeprefix(f"arn:aws:ec2:eu-west-1:{ACCOUNT}:")): {k: v for k, v in r.context.items() if k not in OF_EVERY_CALL}
        for r in found
    }


def tag_specification(kind: str, value: str) -> dict[str, object]:
    return {"ResourceType": kind, "Tags": [{"Key": "a", "Value": value}]}


class TestCalls:
    def test_have_a_caller_and_a_region(self) -> None:
        call = sent("ec2", "describe_subnets")
        assert (call.caller, call.service, call.region, call.operation) == ("planner", "ec2", "eu-west-1", "DescribeSubnets")
        assert asked(call) == {("ec2:DescribeSubnets", "*"): {}}

    def test_that_are_unknown_are_errors(self) -> None:
        with pytest.raises(Unknown):
            requests(sent("ec2", "delete_volume", VolumeId="vol-0a"), Account())
        with pytest.raises(Unknown):
            requests(sent("ec2", "create_tags", Resources=["xyz-0a"], Tags=[]), Account())
        with pytest.raises(calls.Unreadable):
            sent("s3", "list_buckets")
        with pytest.raises(calls.Unreadable):
            calls.read("POST", "/", {}, b"")

    def test_a_fleet_asks_for_all_that_its_template_and_its_overrides_name(self) -> None:
        template = {
            "LaunchTemplateSpecification": {"LaunchTemplateName": "nodeless/a", "Version": "$Latest"},
            "Overrides": [{"SubnetId": "subnet-0a"}, {"SubnetId": "subnet-0b"}],
        }
        call = sent(
            "ec2", "create_fleet", Type="instant", LaunchTemplateConfigs=[template],
            TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "spot"},
            TagSpecifications=[tag_specification(kind, kind) for kind in ("fleet", "instance", "volume")],
        )  # fmt: skip
        found = asked(call)
        for action in ("ec2:CreateFleet", "ec2:RunInstances"):
            uses = {resource for of, resource in found if of == action}
            assert uses == {
                "arn:aws:ec2:eu-west-1::image/ami-0a", "arn:aws:ec2:eu-west-1::snapshot/snap-0a", "security-group/sg-0a", "subnet/subnet-0a",
                "subnet/subnet-0b", "capacity-reservation/cr-0a", "launch-template/lt-0a", "instance/*", "volume/*", "network-interface/*",
                "spot-instances-request/*", *(["fleet/*"] if action == "ec2:CreateFleet" else []),
            }  # fmt: skip
            assert found[action, "launch-template/lt-0a"] == {"aws:resourcetag/kubernetes.io/cluster/ours": "owned"}
            assert found[action, "instance/*"] == {"aws:requesttag/a": "instance", "aws:tagkeys": ("a",)}
            assert found[action, "network-interface/*"]["aws:requesttag/a"] == "network-interface"
            on_request = [r for r in requests(call, Account()) if r.action == action and r.resource.endswith(":spot-instances-request/*")]
            assert {("aws:requesttag/a" in r.context) for r in on_request} == {True, False}, "only the template tags it"
        assert found["ec2:CreateTags", "fleet/*"]["ec2:createaction"] == "CreateFleet"
        made = {r.context["ec2:createaction"] for r in requests(call, Account()) if r.resource.endswith(":volume/*") and r.action == "ec2:CreateTags"}
        assert made == {"CreateFleet", "RunInstances"}, "EC2 does not report under which name it asks, so both must be allowed"
        assert found["iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/node"] == {"iam:passedtoservice": "ec2.amazonaws.com"}

    def test_an_instance_asks_for_what_the_call_adds_to_its_template(self) -> None:
        found = asked(sent(
            "ec2", "run_instances", MinCount=1, MaxCount=1, DryRun=True, LaunchTemplate={"LaunchTemplateName": "nodeless/a"},
            NetworkInterfaces=[{"DeviceIndex": 0, "SubnetId": "subnet-0a", "Groups": ["sg-0b"]}], Placement={"GroupName": "near"},
            InstanceMarketOptions={"MarketType": "spot"}, TagSpecifications=[tag_specification("instance", "x")],
        ))  # fmt: skip
        assert {"subnet/subnet-0a", "security-group/sg-0a", "security-group/sg-0b", "placement-group/near", "spot-instances-request/*"} <= {
            r for _, r in found
        }
        assert ("ec2:CreateTags", "instance/*") in found and ("ec2:CreateTags", "fleet/*") not in found

    def test_tags_of_a_template_are_read_both_ways(self) -> None:
        def launch(*specifications: dict[str, object]) -> dict[frozenset[Reading], dict[str, object]]:
            call = sent(
                "ec2", "run_instances", MinCount=1, MaxCount=1, LaunchTemplate={"LaunchTemplateName": "nodeless/a"},
                **({"TagSpecifications": list(specifications)} if specifications else {}),
            )  # fmt: skip
            on_volume = [r for r in requests(call, Account()) if r.action == "ec2:RunInstances" and r.resource.endswith(":volume/*")]
            return {r.readings: {k: v for k, v in r.context.items() if k not in OF_EVERY_CALL} for r in on_volume}

        of_template = {"aws:requesttag/a": "volume", "aws:tagkeys": ("a",)}
        either = {frozenset({Reading.TEMPLATE_TAGS_COUNT}): of_template, frozenset({Reading.TEMPLATE_TAGS_DO_NOT_COUNT}): {}}
        assert launch() == either == launch(tag_specification("instance", "x"))
        of_call = {"aws:requesttag/a": "x", "aws:tagkeys": ("a",)}
        assert launch(tag_specification("volume", "x")) == {READINGS: of_call}, "tags of the call replace those of the template"

    def test_a_call_is_allowed_by_all_readings_and_prevented_by_all(self) -> None:
        of_all, of_one = Request("s:Act", "r"), Request("s:Act", "r", readings=frozenset({Reading.TEMPLATE_TAGS_COUNT}))
        of_other = Request("s:Act", "r", readings=frozenset({Reading.TEMPLATE_TAGS_DO_NOT_COUNT}))
        nothing = policy()
        assert nothing.denied([of_one]) and not nothing.prevents([of_one])
        assert nothing.prevents([of_all]) and nothing.prevents([of_one, of_other])
        assert not policy(allow()).prevents([of_all])

    def test_an_interface_that_exists_is_asked_for_by_its_id(self) -> None:
        found = asked(
            sent(
                "ec2",
                "run_instances",
                MinCount=1,
                MaxCount=1,
                ImageId="ami-0a",
                NetworkInterfaces=[{"DeviceIndex": 0, "NetworkInterfaceId": "eni-0b"}],
            )
        )
        assert {r for _, r in found if r.startswith("network-interface")} == {"network-interface/eni-0b"}

    def test_launch_templates_are_made_with_tags_and_deleted_by_them(self) -> None:
        found = asked(sent("ec2", "create_launch_template", LaunchTemplateName="nodeless/a", LaunchTemplateData={"ImageId": "ami-0a"},
                           TagSpecifications=[tag_specification("launch-template", "x")]))  # fmt: skip
        tags = {"aws:requesttag/a": "x", "aws:tagkeys": ("a",)}
        assert found == {
            ("ec2:CreateLaunchTemplate", "launch-template/*"): tags,
            ("ec2:CreateTags", "launch-template/*"): {**tags, "ec2:createaction": "CreateLaunchTemplate"},
        }
        owned = {"aws:resourcetag/kubernetes.io/cluster/ours": "owned"}
        assert asked(sent("ec2", "delete_launch_template", LaunchTemplateName="nodeless/a")) == {
            ("ec2:DeleteLaunchTemplate", "launch-template/lt-0a"): owned
        }

    def test_instances_are_ended_and_tagged_one_by_one(self) -> None:
        owned = {"aws:resourcetag/kubernetes.io/cluster/ours": "owned"}
        found = asked(sent("ec2", "terminate_instances", InstanceIds=["i-0a", "i-0b"]))
        assert found == {("ec2:TerminateInstances", "instance/i-0a"): owned, ("ec2:TerminateInstances", "instance/i-0b"): {}}
        found = asked(sent("ec2", "create_tags", Resources=["i-0a", "vol-0b"], Tags=[{"Key": "Name", "Value": "n"}]))
        tags = {"aws:requesttag/name": "n", "aws:tagkeys": ("Name",)}
        assert found == {("ec2:CreateTags", "instance/i-0a"): {**owned, **tags}, ("ec2:CreateTags", "volume/vol-0b"): tags}

    def test_items_are_asked_for_by_partition(self) -> None:
        table = f"arn:aws:dynamodb:eu-west-1:{ACCOUNT}:table/t"
        key = {"pk": {"S": "ours"}, "sk": {"S": "plan"}}
        other = {"pk": {"S": "theirs"}, "sk": {"S": "plan"}}

        def partitions(operation: str, **parameters: object) -> dict[tuple[str, str], object]:
            return {asks: context["dynamodb:leadingkeys"] for asks, context in asked(sent("dynamodb", operation, **parameters)).items()}

        assert partitions("get_item", TableName="t", Key=key) == {("dynamodb:GetItem", table): ("ours",)}
        assert partitions("put_item", TableName="t", Item=other) == {("dynamodb:PutItem", table): ("theirs",)}
        writes = {"t": [{"PutRequest": {"Item": key}}, {"DeleteRequest": {"Key": other}}]}
        assert partitions("batch_write_item", RequestItems=writes) == {("dynamodb:BatchWriteItem", table): ("ours", "theirs")}
        assert partitions("batch_get_item", RequestItems={"t": {"Keys": [other]}}) == {("dynamodb:BatchGetItem", table): ("theirs",)}
        transaction = [
            {"Put": {"TableName": "t", "Item": key}},
            {"ConditionCheck": {"TableName": "t", "Key": other, "ConditionExpression": "attribute_exists(pk)"}},
        ]
        assert partitions("transact_write_items", TransactItems=transaction) == {
            ("dynamodb:PutItem", table): ("ours",),
            ("dynamodb:ConditionCheckItem", table): ("theirs",),
        }
        values = {":p": {"S": "ours"}, ":s": {"S": "nodeclaim#"}}
        query = {
            "TableName": "t",
            "KeyConditionExpression": "begins_with(sk, :s) AND #p = :p",
            "ExpressionAttributeNames": {"#p": "pk"},
            "ExpressionAttributeValues": values,
        }
        assert partitions("query", **query) == {("dynamodb:Query", table): ("ours",)}
        index = {
            "TableName": "t",
            "IndexName": "instance",
            "KeyConditionExpression": "instanceId = :i",
            "ExpressionAttributeValues": {":i": {"S": "i-0a"}},
        }
        assert partitions("query", **index) == {("dynamodb:Query", f"{table}/index/instance"): ("i-0a",)}
        assert asked(sent("dynamodb", "scan", TableName="t")) == {("dynamodb:Scan", table): {}}

    def test_a_batch_of_messages_needs_what_one_needs(self) -> None:
        url = f"http://127.0.0.1:1/{ACCOUNT}/plan.fifo"
        queue = f"arn:aws:sqs:eu-west-1:{ACCOUNT}:plan.fifo"
        assert asked(sent("sqs", "send_message", QueueUrl=url, MessageBody="m")) == {("sqs:SendMessage", queue): {}}
        assert asked(sent("sqs", "send_message_batch", QueueUrl=url, Entries=[{"Id": "1", "MessageBody": "m"}])) == {("sqs:SendMessage", queue): {}}

    def test_parameters_of_amazon_belong_to_no_account(self) -> None:
        assert asked(sent("ssm", "get_parameter", Name="/aws/service/eks/x")) == {
            ("ssm:GetParameter", "arn:aws:ssm:eu-west-1::parameter/aws/service/eks/x"): {}
        }
        assert asked(sent("ssm", "get_parameter", Name="/mine")) == {("ssm:GetParameter", f"arn:aws:ssm:eu-west-1:{ACCOUNT}:parameter/mine"): {}}

    def test_clusters_prices_and_shifts(self) -> None:
        assert asked(sent("eks", "describe_cluster", name="ours")) == {("eks:DescribeCluster", f"arn:aws:eks:eu-west-1:{ACCOUNT}:cluster/ours"): {}}
        assert asked(sent("pricing", "get_products", ServiceCode="AmazonEC2")) == {("pricing:GetProducts", "*"): {}}
        arn = f"arn:aws:eks:eu-west-1:{ACCOUNT}:cluster/ours"
        found = asked(sent("arc-zonal-shift", "get_managed_resource", resourceIdentifier=arn))
        assert found == {("arc-zonal-shift:GetManagedResource", "*"): {"arc-zonal-shift:resourceidentifier": arn}}

    def test_savings_plans_belong_to_no_region(self) -> None:
        assert asked(sent("savingsplans", "describe_savings_plans", states=["active"])) == {
            ("savingsplans:DescribeSavingsPlans", f"arn:aws:savingsplans::{ACCOUNT}:savingsplan/*"): {}
        }
        assert asked(sent("savingsplans", "describe_savings_plan_rates", savingsPlanId="p")) == {
            ("savingsplans:DescribeSavingsPlanRates", f"arn:aws:savingsplans::{ACCOUNT}:savingsplan/p"): {}
        }

    def test_access_policies_of_access_entries(self) -> None:
        """The ARN ends in an id. It is not documented whether it contains the path of a role."""
        role, policy = f"arn:aws:iam::{ACCOUNT}:role/teams/admin", "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
        given = {"clusterName": "ours", "principalArn": role, "policyArn": policy}
        of_both = {"eks:principalarn": role, "eks:policyarn": policy}
        for operation, more, context in [
            ("associate_access_policy", {"accessScope": {"type": "cluster"}}, {**of_both, "eks:accessscope": "cluster"}),
            ("disassociate_access_policy", {}, of_both),
        ]:
            found = asked(sent("eks", operation, **given, **more))
            assert list(found.values()) == [context, context]
            entries = [resource.rsplit("/", 1)[0] for _, resource in found]
            assert entries == [f"arn:aws:eks:eu-west-1:{ACCOUNT}:access-entry/ours/role/{ACCOUNT}/{name}" for name in ("teams/admin", "admin")]
            assert {action for action, _ in found} == {f"eks:{operation.title().replace('_', '')}"}

    def test_instance_profiles(self) -> None:
        profile = f"arn:aws:iam::{ACCOUNT}:instance-profile"
        tags = [{"Key": "a", "Value": "x"}]

        def all_of(operation: str, **parameters: object) -> dict[tuple[str, str], set[str]]:
            return {(r.action, r.resource): set(r.context) - OF_EVERY_CALL for r in requests(sent("iam", operation, **parameters), Account())}

        new = f"{profile}/karpenter/new"
        assert all_of("create_instance_profile", InstanceProfileName="new", Path="/karpenter/", Tags=tags) == {
            ("iam:CreateInstanceProfile", new): {"aws:requesttag/a", "aws:tagkeys"},
            ("iam:TagInstanceProfile", new): {"aws:requesttag/a", "aws:resourcetag/a", "aws:tagkeys"},
        }
        owned = "aws:resourcetag/kubernetes.io/cluster/ours"
        assert all_of("add_role_to_instance_profile", InstanceProfileName="nodes", RoleName="node") == {
            ("iam:AddRoleToInstanceProfile", f"{profile}/nodes"): {owned},
            ("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/node"): {"iam:passedtoservice"},
        }
        assert all_of("list_instance_profiles") == {("iam:ListInstanceProfiles", "*"): set()}
