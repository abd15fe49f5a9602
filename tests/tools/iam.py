"""Evaluates the identity policy of a role for a call, by the documented rules of AWS IAM.

The sources of the rules, all below https://docs.aws.amazon.com/IAM/latest/UserGuide/:

- an explicit Deny overrides every Allow, and the default is an implicit deny: reference_policies_evaluation-logic.html
- elements of a statement, wildcards in actions and resources: reference_policies_elements.html and the pages below it
- operators, `IfExists`, `Null`, and keys that are missing in the request: reference_policies_elements_condition_operators.html
- AND over operators and keys, OR over values, NOR over values of negated operators:
  reference_policies_condition-logic-multiple-context-keys-or-values.html
- `ForAllValues` and `ForAnyValue`: reference_policies_condition-single-vs-multi-valued-context-keys.html

Unknown elements, operators, condition keys and policy variables are errors and never an Allow. Not evaluated: resource policies (those
of the module allow EventBridge to send to queues and everyone to call the URL of wake, and grant nothing to roles), and permissions
boundaries, session policies and policies of the organization, which the module does not have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

# Condition keys whose value recording and attacks provide for every call, in lower case; one that ends in / is a prefix.
KEYS = (
    "aws:requestedregion",
    "aws:requesttag/",
    "aws:resourcetag/",
    "aws:tagkeys",
    "arc-zonal-shift:resourceidentifier",
    "dynamodb:leadingkeys",
    "ec2:createaction",
    "eks:accessscope",
    "eks:policyarn",
    "eks:principalarn",
    "iam:awsservicename",
    "iam:passedtoservice",
    "kms:encryptioncontext:aws:dynamodb:tablename",
    "kms:viaservice",
    "lambda:sourcefunctionarn",
)
# Resources whose tags are evaluated; the tags of queues, tables, clusters, roles and parameters are not read.
KNOW_RESOURCE_TAGS = re.compile(r"ec2:.*|iam:.*InstanceProfile")
# Multivalued keys: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
# and the pages of the services in the Service Authorization Reference, where their type is ArrayOfString.
MULTIVALUED = frozenset({"aws:tagkeys", "dynamodb:leadingkeys"})
ELEMENTS = frozenset({"Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition"})


class Unsupported(Exception):
    """The policy contains something that this evaluator does not implement."""


class Decision(Enum):
    """The result of a request."""

    ALLOWED = "allowed"
    DENIED = "denied implicitly, because no statement allows it"
    FORBIDDEN = "denied explicitly by a Deny statement"


class Reading(Enum):
    """How AWS's documentation of tags in launch templates can be understood: see authorization.py."""

    TEMPLATE_TAGS_COUNT = "tags in a launch template are request tags of a launch"
    TEMPLATE_TAGS_DO_NOT_COUNT = "only tags in a call are request tags of a launch"


READINGS = frozenset(Reading)


@dataclass(frozen=True)
class Request:
    """One of the IAM requests of an API call: an action on a resource, with its context.

    Keys of the context are in lower case. The value of a multivalued key (MULTIVALUED) is a tuple, that of any other key a string.
    A request that AWS makes according to only some of the READINGS of its documentation names those.
    """

    action: str
    resource: str
    context: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    readings: frozenset[str] = READINGS

    def __post_init__(self) -> None:
        for key, value in self.context.items():
            if not is_known(key):
                raise Unsupported(f"context key {key}: list it in KEYS, in lower case")
            if isinstance(value, tuple) != (key in MULTIVALUED):
                raise Unsupported(f"context key {key} is {value!r}; multivalued keys need a tuple, others a string")

    def __str__(self) -> str:
        context = ", ".join(f"{key}={value}" for key, value in sorted(self.context.items()))
        return f"{self.action} on {self.resource} ({context})"


def is_known(key: str) -> bool:
    """Whether a condition key, in lower case, is one of KEYS."""
    return any(key == known or (known.endswith("/") and key.startswith(known) and len(key) > len(known)) for known in KEYS)


@lru_cache(maxsize=4096)
def _pattern(glob: str, any_case: bool) -> re.Pattern[str]:
    parts = (".*" if c == "*" else "." if c == "?" else re.escape(c) for c in glob)
    return re.compile("".join(parts), re.DOTALL | (re.IGNORECASE if any_case else 0))


def like(glob: str, value: str, any_case: bool = False) -> bool:
    """Whether a text matches a pattern with * for any characters and ? for one."""
    return _pattern(glob, any_case).fullmatch(value) is not None


def arn_like(glob: str, value: str) -> bool:
    """Each of the six parts of an ARN is matched separately; ArnEquals and ArnLike are the same."""
    patterns, parts = glob.split(":", 5), value.split(":", 5)
    return len(patterns) == len(parts) == 6 and all(map(like, patterns, parts))


def _boolean(expected: str, value: str) -> bool:
    if expected.lower() not in ("true", "false"):
        raise Unsupported(f"Bool with {expected!r}")
    return expected.lower() == value.lower()


# Each operator by name: the comparison of a value of the policy with one of the request, and whether the operator is negated.
OPERATORS: dict[str, tuple[Callable[[str, str], bool], bool]] = {
    "StringEquals": (lambda expected, value: expected == value, False),
    "StringNotEquals": (lambda expected, value: expected == value, True),
    "StringEqualsIgnoreCase": (lambda expected, value: expected.lower() == value.lower(), False),
    "StringNotEqualsIgnoreCase": (lambda expected, value: expected.lower() == value.lower(), True),
    "StringLike": (like, False),
    "StringNotLike": (like, True),
    "ArnEquals": (arn_like, False),
    "ArnLike": (arn_like, False),
    "ArnNotEquals": (arn_like, True),
    "ArnNotLike": (arn_like, True),
    "Bool": (_boolean, False),
}


@dataclass(frozen=True)
class Condition:
    """One key below one operator of a Condition element."""

    quantifier: str
    operator: str
    if_exists: bool
    key: str
    values: tuple[str, ...]

    def holds(self, context: Mapping[str, str | tuple[str, ...]]) -> bool:
        found = context.get(self.key)
        present = found is not None and found != ()
        if self.operator == "Null":
            return any(_boolean(expected, "false" if present else "true") for expected in self.values)
        compare, negated = OPERATORS[self.operator]

        def matches(value: str) -> bool:
            return any(compare(expected, value) for expected in self.values) != negated

        if not present:
            return self._without_value(negated)
        values = (found,) if isinstance(found, str) else found
        return any(map(matches, values)) if self.quantifier == "ForAnyValue" else all(map(matches, values))

    def _without_value(self, negated: bool) -> bool:
        """The result for a key that the request does not have: no value matches ForAnyValue, and ForAllValues is true."""
        if self.quantifier:
            return self.quantifier == "ForAllValues" or self.if_exists
        return self.if_exists or negated


@dataclass(frozen=True)
class Statement:
    """A statement of an identity policy."""

    name: str
    allow: bool
    actions: tuple[str, ...]
    not_actions: bool
    resources: tuple[str, ...]
    not_resources: bool
    conditions: tuple[Condition, ...]

    def applies(self, request: Request) -> bool:
        action = any(like(pattern, request.action, any_case=True) for pattern in self.actions)
        resource = any(like(pattern, request.resource) for pattern in self.resources)
        if action == self.not_actions or resource == self.not_resources:
            return False
        if any(c.key.startswith("aws:resourcetag/") for c in self.conditions) and not KNOW_RESOURCE_TAGS.fullmatch(request.action):
            raise Unsupported(f"statement {self.name} has a condition on tags of {request.resource}, which were not read")
        return all(condition.holds(request.context) for condition in self.conditions)


@dataclass(frozen=True)
class Policy:
    """An identity policy, or all policies of a role."""

    statements: tuple[Statement, ...]

    @classmethod
    def parse(cls, *documents: str) -> Policy:
        """The policies of a role, from their JSON."""
        statements: list[Statement] = []
        for document in documents:
            policy = json.loads(document)
            unknown = set(policy) - {"Version", "Id", "Statement"}
            if unknown or policy.get("Version") != "2012-10-17":
                raise Unsupported(f"policy of version {policy.get('Version')} with {sorted(unknown)}")
            found = policy["Statement"]
            statements += map(_statement, [found] if isinstance(found, dict) else found)
        return cls(tuple(statements))

    def decide(self, request: Request) -> Decision:
        """The decision for a request."""
        applying = [statement for statement in self.statements if statement.applies(request)]
        if any(not statement.allow for statement in applying):
            return Decision.FORBIDDEN
        return Decision.ALLOWED if applying else Decision.DENIED

    def denied(self, requests: Sequence[Request]) -> list[tuple[Request, Decision]]:
        """The requests of a call that are not allowed; the call is allowed by every reading if there are none."""
        decisions = ((request, self.decide(request)) for request in requests)
        return [(request, decision) for request, decision in decisions if decision is not Decision.ALLOWED]

    def prevents(self, requests: Sequence[Request]) -> bool:
        """Whether a call is denied by every reading, as an attack has to be."""
        denied = [request.readings for request, _ in self.denied(requests)]
        return READINGS == frozenset().union(*denied)

    def allowed_actions(self) -> set[str]:
        """The actions in Allow statements. A pattern would include actions that are not listed, so it is an error."""
        allowing = [statement for statement in self.statements if statement.allow]
        for statement in allowing:
            if statement.not_actions or any(c in action for action in statement.actions for c in "*?"):
                raise Unsupported(f"statement {statement.name} allows actions by a pattern")
        return {action for statement in allowing for action in statement.actions}


def _texts(value: object, where: str) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    # JSON's true and false are equal to their texts, as in AWS's examples of Bool and Null.
    texts = [json.dumps(v) if isinstance(v, bool) else v for v in values]
    for text in texts:
        if not isinstance(text, str):
            raise Unsupported(f"{where}: {text!r} is not a string")
        if "${" in text:
            raise Unsupported(f"{where}: policy variable in {text!r}")
    return tuple(texts)


def _one_of(statement: Mapping[str, object], element: str, where: str) -> tuple[tuple[str, ...], bool]:
    """The values of an element or of its Not form, and whether it is the Not form."""
    names = [name for name in (element, f"Not{element}") if name in statement]
    if len(names) != 1:
        raise Unsupported(f"{where} needs one of {element} and Not{element}")
    return _texts(statement[names[0]], where), names[0] != element


def _statement(statement: Mapping[str, object]) -> Statement:
    name = str(statement.get("Sid", json.dumps(statement)))
    unknown = set(statement) - ELEMENTS
    if unknown:
        raise Unsupported(f"statement {name}: element {', '.join(sorted(unknown))}")
    if statement.get("Effect") not in ("Allow", "Deny"):
        raise Unsupported(f"statement {name}: Effect {statement.get('Effect')!r}")
    actions, not_actions = _one_of(statement, "Action", name)
    resources, not_resources = _one_of(statement, "Resource", name)
    conditions = [
        _condition(operator, key, _texts(values, name), name)
        for operator, keys in dict(statement.get("Condition", {})).items()
        for key, values in keys.items()
    ]
    return Statement(name, statement["Effect"] == "Allow", actions, not_actions, resources, not_resources, tuple(conditions))


def _condition(written: str, written_key: str, values: tuple[str, ...], where: str) -> Condition:
    quantifier, _, operator = written.rpartition(":")
    if_exists = operator.endswith("IfExists")
    operator = operator.removesuffix("IfExists")
    if quantifier not in ("", "ForAllValues", "ForAnyValue") or (operator != "Null" and operator not in OPERATORS):
        raise Unsupported(f"statement {where}: condition operator {written}")
    if operator == "Null" and (if_exists or quantifier):
        raise Unsupported(f"statement {where}: condition operator {written}")
    key = written_key.lower()
    if not is_known(key):
        raise Unsupported(f"statement {where}: condition key {written_key}, for which no recorded call has a value")
    if operator != "Null" and (key in MULTIVALUED) != bool(quantifier):
        raise Unsupported(f"statement {where}: {written} of {written_key}; ForAllValues and ForAnyValue are for multivalued keys")
    return Condition(quantifier, operator, if_exists, key, values)
