"""How AWS IAM would decide a call, by its documented rules, for the identity policy of one role.

Where each rule comes from, all below https://docs.aws.amazon.com/IAM/latest/UserGuide/:

- an explicit Deny goes before every Allow, and what nothing allows is denied: reference_policies_evaluation-logic.html
- elements of a statement, wildcards in actions and resources: reference_policies_elements.html and the pages below it
- operators, `IfExists`, `Null`, and what a key that the request lacks comes to: reference_policies_elements_condition_operators.html
- AND over operators and keys, OR over values, NOR over values of negated operators:
  reference_policies_condition-logic-multiple-context-keys-or-values.html
- `ForAllValues` and `ForAnyValue`: reference_policies_condition-single-vs-multi-valued-context-keys.html

What is not known here is an error and never an Allow: an element, an operator, a condition key, a policy variable.
Not looked at: resource policies (the module's let EventBridge send to queues and everyone call wake's URL; they give no role
anything), and permissions boundaries, session policies and policies of the organization, which the module does not have.
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
    "iam:awsservicename",
    "iam:passedtoservice",
    "lambda:sourcefunctionarn",
)
# Resources whose tags are evaluated; the tags of queues, tables, clusters, roles and parameters are not read.
KNOW_RESOURCE_TAGS = re.compile(r"ec2:.*|iam:.*InstanceProfile")
# Keys that a request may hold several values of: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
# and the pages of the services in the Service Authorization Reference, where their type is ArrayOfString.
MULTIVALUED = frozenset({"aws:tagkeys", "dynamodb:leadingkeys"})
ELEMENTS = frozenset({"Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition"})


class Unsupported(Exception):
    """The policy holds something that this evaluator has no rule for."""


class Decision(Enum):
    """What comes of a request."""

    ALLOWED = "allowed"
    DENIED = "denied, because nothing allows it"
    FORBIDDEN = "denied by a Deny statement"


@dataclass(frozen=True)
class Request:
    """One of the questions that an API call puts to IAM: an action on a resource, and what is known of both.

    Keys of the context are in lower case. A key with several values (MULTIVALUED) holds a tuple, any other a string.
    """

    action: str
    resource: str
    context: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key, value in self.context.items():
            if not is_known(key):
                raise Unsupported(f"context key {key}: list it in KEYS, in lower case")
            if isinstance(value, tuple) != (key in MULTIVALUED):
                raise Unsupported(f"context key {key} holds {value!r}; keys of several values hold a tuple, others a string")

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
    """Each of the six parts of an ARN is matched for itself; ArnEquals and ArnLike are the same."""
    patterns, parts = glob.split(":", 5), value.split(":", 5)
    return len(patterns) == len(parts) == 6 and all(map(like, patterns, parts))


def _boolean(expected: str, value: str) -> bool:
    if expected.lower() not in ("true", "false"):
        raise Unsupported(f"Bool with {expected!r}")
    return expected.lower() == value.lower()


# Each operator by name: how a value of the policy compares with one of the request, and whether the operator is negated.
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
        """What a key that the request lacks comes to: none of no values matches, all of them do."""
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
            raise Unsupported(f"statement {self.name} asks for tags of {request.resource}, which were not read")
        return all(condition.holds(request.context) for condition in self.conditions)


@dataclass(frozen=True)
class Policy:
    """An identity policy, or all those of a role together."""

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
        """How IAM decides a request."""
        applying = [statement for statement in self.statements if statement.applies(request)]
        if any(not statement.allow for statement in applying):
            return Decision.FORBIDDEN
        return Decision.ALLOWED if applying else Decision.DENIED

    def denied(self, requests: Sequence[Request]) -> list[tuple[Request, Decision]]:
        """The requests of a call that are not allowed; the call is allowed where there are none."""
        decisions = ((request, self.decide(request)) for request in requests)
        return [(request, decision) for request, decision in decisions if decision is not Decision.ALLOWED]

    def allowed_actions(self) -> set[str]:
        """The actions that Allow statements name. A pattern would name actions that are not listed, so it is an error."""
        allowing = [statement for statement in self.statements if statement.allow]
        for statement in allowing:
            if statement.not_actions or any(c in action for action in statement.actions for c in "*?"):
                raise Unsupported(f"statement {statement.name} allows actions by a pattern")
        return {action for statement in allowing for action in statement.actions}


def _texts(value: object, where: str) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    # JSON's true and false stand for their texts, as in AWS's own examples of Bool and Null.
    texts = [json.dumps(v) if isinstance(v, bool) else v for v in values]
    for text in texts:
        if not isinstance(text, str):
            raise Unsupported(f"{where}: {text!r} is not a string")
        if "${" in text:
            raise Unsupported(f"{where}: policy variable in {text!r}")
    return tuple(texts)


def _one_of(statement: Mapping[str, object], element: str, where: str) -> tuple[tuple[str, ...], bool]:
    """The values of an element or of its Not form, and whether it is that."""
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
        raise Unsupported(f"statement {where}: condition key {written_key}, which no recorded call has a value for")
    if operator != "Null" and (key in MULTIVALUED) != bool(quantifier):
        raise Unsupported(f"statement {where}: {written} of {written_key}; ForAllValues and ForAnyValue are for keys of several values")
    return Condition(quantifier, operator, if_exists, key, values)
