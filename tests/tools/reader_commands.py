"""Replacements of `terraform`, `make`, `cargo` and `aws` for a Reader (documents.py). Run as a program; the first argument is the command."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any, NoReturn

FUNCTIONS = ("planner", "lifecycle", "interruption", "catalog", "wake", "installer")


def refuse(why: str) -> NoReturn:
    sys.exit(f"{' '.join(sys.argv[1:])}: {why}")


def given(name: str) -> str:
    value = os.environ.get(f"READER_{name.upper()}")
    return value if value is not None else refuse(f"the test did not set {name}")


def terraform(arguments: list[str]) -> None:
    operation = next((a for a in arguments if not a.startswith("-")), "")
    extra = {"init": [f"-plugin-dir={given('mirror')}"], "apply": ["-auto-approve"], "destroy": ["-auto-approve"]}.get(operation, [])
    binary = given("terraform")
    os.execv(binary, [binary, *arguments, *extra])


def build_zips() -> None:
    """Copies the zips to the location of cargo lambda."""
    target = Path(given("checkout")) / "target/lambda"
    shutil.copytree(given("zips"), target, dirs_exist_ok=True)
    missing = [name for name in FUNCTIONS if not (target / name / "bootstrap.zip").is_file()]
    if missing:
        refuse(f"no zip of {', '.join(missing)}")


def make(arguments: list[str]) -> None:
    if arguments != ["zips"]:
        refuse("the documents do not contain this target")
    build_zips()


def cargo(arguments: list[str]) -> None:
    if arguments[:2] == ["lambda", "build"]:
        if arguments[2:] != ["--release", "--arm64", "--output-format", "zip"]:
            refuse("the module deploys zips for arm64 of release builds")
        build_zips()
        return
    if arguments[:1] in (["demo"], ["local"]):
        os.execv(given("nodeless"), [given("nodeless"), *arguments])
    if arguments[:1] == ["nodeless"]:
        os.execv(given("nodeless"), arguments)
    before, _, after = " ".join(arguments).partition(" -- ")
    if not re.fullmatch(r"run --release -p nodeless( --features aws)?", before) or not after:
        refuse("the documents do not contain this command")
    binary = given("nodeless")
    os.execv(binary, [binary, *arguments[arguments.index("--") + 1 :]])


def options(arguments: list[str]) -> dict[str, Any]:
    """Options with values, such as --queue-url URL, and switches, such as --no-scan-index-forward."""
    found: dict[str, Any] = {}
    rest = list(arguments)
    while rest:
        name = rest.pop(0)
        if not name.startswith("--"):
            refuse(f"{name!r} is not an option")
        name = name.removeprefix("--")
        if name.startswith("no-"):
            found[name.removeprefix("no-")] = False
        elif not rest:
            refuse(f"--{name} has no value")
        else:
            found[name] = rest.pop(0)
    return found


def value(service: Any, operation: str, parameter: str, text: Any) -> Any:
    """Parses the text of an option as the AWS CLI does, by the type of the parameter."""
    shape = service.meta.service_model.operation_model(service.meta.method_to_api_mapping[operation]).input_shape.members[parameter]
    return json.loads(text) if isinstance(text, str) and shape.type_name in ("structure", "map", "list", "integer", "long") else text


def printed(part: Any) -> str:
    """Binary values in the form of the AWS CLI."""
    return base64.b64encode(part).decode() if isinstance(part, bytes) else str(part)


def client(service: str) -> Any:
    import boto3

    return boto3.client(service, endpoint_url=given("aws_url"), region_name="us-east-1")


def aws(arguments: list[str]) -> None:
    service, operation, chosen = arguments[0], arguments[1], options(arguments[2:])
    if (service, operation) == ("eks", "update-kubeconfig"):
        if chosen.get("region") != "us-east-1":
            refuse("the cluster is in us-east-1")
        # Fails if the cluster does not exist, like the real command.
        client("eks").describe_cluster(name=chosen["name"])
        shutil.copyfile(given("kubeconfig"), os.environ["KUBECONFIG"])
        return
    if chosen.pop("output", "json") != "json":
        refuse("only JSON is supported here")
    api, method = client(service), operation.replace("-", "_")
    parameters = {"".join(part.capitalize() for part in name.split("-")): text for name, text in chosen.items()}
    answer = getattr(api, method)(**{name: value(api, method, name, text) for name, text in parameters.items()})
    answer.pop("ResponseMetadata", None)
    print(json.dumps(answer, default=printed))


def nodeless(arguments: list[str]) -> None:
    os.execv(given("nodeless"), [given("nodeless"), *arguments])


if __name__ == "__main__":
    {"nodeless": nodeless, "terraform": terraform, "make": make, "cargo": cargo, "aws": aws}[sys.argv[1]](sys.argv[2:])
