"""Assumptions of docs/reference/aws.csv that the first hour brings about in no step, and why. Each row of the page is either observed or here:
tests/terraform/assumptions.py checks that."""

from __future__ import annotations

BY_REASON: dict[str, tuple[str, ...]] = {
    "it takes a quota that is used up, or one that AWS lowers": (
        "ec2-fleet-capacity-codes", "ec2-fleet-partial", "ec2-fleet-quotas", "ec2-fleet-rejected", "ec2-vcpu-quota", "ec2-vcpu-quota-codes",
        "ec2-vcpu-quota-counted", "ec2-vcpu-quota-dry-run", "ec2-vcpu-quota-fleet", "ec2-vcpu-quota-maximum", "lambda-account-concurrency",
    ),
    "it takes a capacity reservation, which is paid for whether it is used or not": (
        "ec2-fleet-interruptible", "ec2-reservation-preference", "ec2-vcpu-quota-reserved",
    ),
    "it takes a lack of capacity, or another event that only AWS decides on": (
        "ec2-describe-in-zone-outage", "ec2-dry-run-capacity", "ec2-spread-limit", "ec2-start-all", "ec2-start-capacity", "events-capacity-reservation", "events-health", "events-rebalance",
        "sqs-standard-twice",
    ),
    "it throttles every other client of the account and region": (
        "ec2-throttle-answer-lost", "ec2-throttle-code", "ec2-throttle-launches", "ec2-throttle-starts", "ec2-throttle-tags", "ec2-throttle-terminations", "eks-throttle",
        "iam-throttle", "ssm-throttle",
    ),
    "it takes hundreds of capacity pools, of which a small fleet shows nothing": ("ec2-fleet-configs-50", "ec2-fleet-overrides", "ec2-fleet-priority"),
    "it takes minutes in which an instance is paid for": (
        "ec2-fleet-token-lifetime", "ec2-reboot", "ec2-stop-spot",
    ),
    "it takes an instance that is protected, or has several interfaces, which may stay behind": ("ec2-template-public-address", "ec2-terminate-protected"),
    "it takes a cluster of another kind, or in another zone or region, than the one of the example, or a second one": (
        "arc-events", "arc-zonal-shift", "eks-cni-ipv6", "eks-created-again", "eks-egress-isolated", "eks-egress-mode", "eks-zones",
        "lambda-mapping-tags", "lambda-recursion-regions", "lambda-url-regions", "pricing-regions",
    ),
    "it takes a Local Zone, which the account would have to opt in to": ("ec2-zones-opted-in", "pricing-local-zones"),
    "it takes thousands of reads or writes of the table a second, or two at the same moment": (
        "ddb-cancellation-throttled", "ddb-conflict", "ddb-in-progress", "ddb-partition-code", "ddb-partition-split", "ddb-partition-units", "ddb-query-isolation",
    ),
    "it takes a function, a URL or an alarm that is set up wrongly on purpose": (
        "cloudwatch-fill-never", "eks-access-policy-repeated", "lambda-maximum-concurrency", "lambda-partial-batch", "lambda-recursion-sdk", "lambda-terraform-15-minutes",
        "lambda-url-permissions", "lambda-visibility-six-times", "lambda-window-above-10",
    ),
    "it takes a key of KMS, which is paid for as long as it exists, or roles with another path than the module's default": (
        "ddb-customer-key", "eks-role-path", "lambda-environment-key", "sqs-customer-key",
    ),
    "it takes a clock, a token, a role or a Namespace that a user of AWS cannot make wrong": ("eks-system-namespace", "eks-token-15-minutes", "iam-eventual", "iam-profile-refusal", "lambda-deadline"),
    "it takes a webhook that hangs, a control plane under load, or its audit log, which the example leaves off": (
        "eks-fairness", "eks-webhook-generation", "eks-webhook-ignore",
    ),
}  # fmt: skip

UNTRIED = {assumption: reason for reason, assumptions in BY_REASON.items() for assumption in assumptions}
