"""The commands and names of the documentation exist: subcommands, flags, targets, variables, metrics, events and annotations."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from functools import cache
from pathlib import Path

import botocore.session
import pages
import pytest
from botocore import xform_name
from tools import artifacts

KUBECTL = {"annotate", "api-resources", "apply", "config", "create", "delete", "describe", "get", "label", "run", "scale", "set", "taint", "wait", "explain", "cordon", "drain", "rollout", "patch", "autoscale", "top"}
# Commands of the AWS CLI that no operation of the API has.
CUSTOM = {("logs", "tail"), ("eks", "update-kubeconfig"), ("dynamodb", "wait"), ("s3", "cp")}
# Flags of the AWS CLI itself.
GLOBAL = {"--query", "--output", "--region", "--profile", "--no-cli-pager", "--max-items"}
# Pages written for people who change the code or the measurements, with commands of other tools.
WITHOUT_COMMANDS = {"SUMMARY.md"}


def shell_lines(path: Path) -> list[str]:
    """The commands of a page: of blocks of a shell, and of indented blocks. A line that ends with a backslash continues."""
    text = path.read_text()
    blocks = [block.text for block in pages.code(text) if block.language in ("sh", "bash", "console")]
    # In lists, blocks of a shell are indented with their list.
    blocks += [re.sub(r"^ +", "", each, flags=re.M) for each in re.findall(r"^ +```sh\n(.*?)^ +```", text, re.S | re.M)]
    blocks += ["\n".join(line[4:] for _, line in pages.prose(text) if line.startswith("    "))]
    joined = "\n".join(blocks).replace("\\\n", " ")
    starts = ("nodeless ", "kubectl ", "make ", "terraform ", "aws ", "cargo ", "$ nodeless ")
    return [line.strip().removeprefix("$ ") for line in joined.splitlines() if line.strip().startswith(starts)]


def commands() -> list[tuple[str, list[str]]]:
    """Every command of every page, with its page; those behind a pipe too."""
    found = []
    for path in pages.pages():
        if str(path.relative_to(pages.DOCS)) in WITHOUT_COMMANDS:
            continue
        for line in shell_lines(path):
            try:
                words = shlex.split(line, comments=True)
            except ValueError as error:
                raise AssertionError(f"{path}: {line}: {error}") from error
            found += [(f"{path.relative_to(pages.ROOT)}: {line}", part) for part in piped(words)]
    return found


def piped(words: list[str]) -> list[list[str]]:
    """The commands of a pipe, without redirections."""
    parts: list[list[str]] = [[]]
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word == "|":
            parts.append([])
        elif word in (">", "<"):
            skip = True
        else:
            parts[-1].append(word)
    return parts


def of(program: str) -> list[tuple[str, list[str]]]:
    """The commands of a program, without its name."""
    found = [(where, words[1:]) for where, words in commands() if words and words[0] == program]
    assert found, f"no page has a command of {program}"
    return found


@pytest.fixture(scope="session")
def nodeless() -> Path:
    return artifacts.command()


@cache
def usage(binary: Path, *command: str) -> str:
    done = subprocess.run([binary, *command, "--help"], capture_output=True, text=True, check=False, env=os.environ | {"COLUMNS": "200"})
    assert done.returncode == 0, f"there is no command nodeless {' '.join(command)}: {done.stderr}"
    return done.stdout


def of_nodeless() -> list[tuple[str, list[str]]]:
    through_cargo = [(where, words[words.index("--") + 1 :]) for where, words in of("cargo") if "nodeless" in words and "--" in words]
    return of("nodeless") + through_cargo + inline()


def inline() -> list[tuple[str, list[str]]]:
    """The commands of nodeless that stand in backticks in a text, without the program's name."""
    found = [(f"{where}: {text}", piped(shlex.split(text))[0][1:]) for where, text in quoted(r"(nodeless [a-z].*)")]
    assert len(found) > 100
    return found


def test_commands_of_nodeless_exist(nodeless: Path) -> None:
    for where, words in of_nodeless():
        subcommand = [word for word in words[:2] if re.fullmatch(r"[a-z]+", word)]
        if subcommand[:1] != ["catalog"]:
            subcommand = subcommand[:1]
        help_text = usage(nodeless, *subcommand)
        for flag in (word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)):
            assert re.search(rf"(^|[\s,]){re.escape(flag)}\b", help_text, re.M), f"{where}: nodeless {subcommand} has no {flag}"


def test_verbs_of_kubectl_exist() -> None:
    for where, words in of("kubectl"):
        verb = next(word for word, before in zip(words, ["", *words], strict=False) if not word.startswith("-") and before not in ("-n", "--kubeconfig"))
        assert verb in KUBECTL, f"{where}: {verb}"


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (pages.ROOT / "Makefile").read_text(), re.M))
    for where, words in of("make"):
        assert set(word for word in words if "=" not in word) <= targets, where


def test_commands_of_aws_exist() -> None:
    session = botocore.session.get_session()
    for where, words in of("aws"):
        service, operation = words[0], words[1]
        if (service, operation) in CUSTOM:
            continue
        model = session.get_service_model(service)
        operations = {xform_name(name, "-"): name for name in model.operation_names}
        assert operation in operations, f"{where}: aws {service} has no {operation}"
        shape = model.operation_model(operations[operation]).input_shape
        flags = {f"--{xform_name(name, '-')}" for name in (shape.members if shape else {})} | GLOBAL
        # A boolean parameter is turned off by a flag of its own.
        flags |= {flag.replace("--", "--no-", 1) for flag in flags}
        given = {word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)}
        # The CLI's own names for the pages of an answer.
        given -= {"--limit"} if service == "dynamodb" else set()
        assert given <= flags, f"{where}: aws {service} {operation} has no {given - flags}"


def declared(kind: str, *files: str) -> set[str]:
    text = "".join((pages.ROOT / file).read_text() for file in files)
    return set(re.findall(rf'^{kind} "(\w+)"', text, re.M))


def test_outputs_of_terraform_exist() -> None:
    outputs = declared("output", "terraform/outputs.tf", "terraform/examples/complete/outputs.tf")
    for where, words in of("terraform"):
        if words[0] == "output":
            named = [word for word in words[1:] if not word.startswith("-")]
            assert set(named) <= outputs, where


def guides() -> list[Path]:
    """The pages for users: everything but the design decisions and the measured costs."""
    return [path for path in pages.pages() if "design" not in path.parts and path != pages.DOCS / "benchmarks/cost.md"]


def quoted(pattern: str) -> list[tuple[str, str]]:
    """The matches in backticks, each with its page."""
    found = []
    for path in guides():
        for line, text in pages.prose(path.read_text()):
            for term in re.findall(r"`([^`]+)`", text):
                if match := re.fullmatch(pattern, term):
                    found.append((f"{path.relative_to(pages.ROOT)}:{line}", match[1]))
    return found


def test_variables_of_the_module_exist() -> None:
    variables = declared("variable", "terraform/variables.tf", "terraform/examples/complete/variables.tf")
    # Fields of other things that are written in the same way.
    others = {"drift", "source", "desiredCount", "cpu", "memory"}
    found = quoted(r"([a-z]\w*) = .+")
    assert len(found) > 20
    for where, name in found:
        assert name in variables | others, f"{where}: the module has no variable {name}"


def sources(*folders: str) -> str:
    return "\n".join(path.read_text() for folder in folders for path in sorted((pages.ROOT / folder).rglob("*.rs")))


def test_annotations_and_labels_of_nodeless_exist() -> None:
    known = set(re.findall(r'"((?:local\.)?nodeless\.sh/[\w-]+)"', sources("shared", "cli/src")))
    found = quoted(r"((?:local\.)?nodeless\.sh/[\w-]+)(?:[:=].*)?")
    assert len(found) > 20
    for where, name in found:
        assert name in known, f"{where}: the code has no {name}"


def test_labels_and_annotations_of_karpenter_exist() -> None:
    known = set(re.findall(r'"(karpenter\.(?:sh|k8s\.aws)/[\w-]+)"', sources("shared")))
    # Tags by which subnets are found are a user's choice.
    known.add("karpenter.sh/discovery")
    # API versions, the earlier ones of `nodeless convert` too.
    known |= {f"karpenter.sh/{version}" for version in ("v1", "v1beta1", "v1alpha5")}
    known |= {f"karpenter.k8s.aws/{version}" for version in ("v1", "v1beta1", "v1alpha1")}
    for where, name in quoted(r"(karpenter\.(?:sh|k8s\.aws)/[\w-]+)(?:[:=].*)?"):
        assert name in known, f"{where}: the code has no {name}"


def test_reasons_of_events_in_commands_exist() -> None:
    known = set(re.findall(r'"([A-Z]\w+)"', sources("shared/core/model/src/events", "shared/core/model/src")))
    for where, words in of("kubectl"):
        for word in words:
            if match := re.fullmatch(r"(?:--field-selector=)?reason=(\w+)", word):
                assert match[1] in known, f"{where}: no event has the reason {match[1]}"


def test_names_of_log_lines_in_commands_exist() -> None:
    code = sources("shared", "functions", "cli/src")
    known = set(re.findall(r'EVENT: &\'static str = "([\w-]+)"|^    \w+, "([\w-]+)", (?:Info|Warn|Error|Debug) \{', code, re.M))
    known = {one or other for one, other in known}
    assert len(known) > 20
    named = [(where, name) for where, words in of("aws") for word in words for name in re.findall(r'\$\.event = "([\w-]+)"', word)]
    assert named
    for where, name in named:
        assert name in known, f"{where}: no log line is called {name}"


def test_metrics_in_commands_exist() -> None:
    known = set(re.findall(r"^    (\w+): \w+, \w+;", sources("shared/adapters/telemetry/src"), re.M))
    assert len(known) > 20
    for where, words in of("aws"):
        if "--metric-name" in words:
            assert words[words.index("--metric-name") + 1] in known, where


def plain(line: str) -> str:
    """A command without its comment."""
    return line.partition(" #")[0].strip()


def test_first_commands_are_those_that_the_deployed_tests_run() -> None:
    """tests/deployed runs the commands of README.md and docs/start.md word for word. Plans change nothing, and others are checked by their flags."""
    run = {plain(line) for line in shell_lines(pages.ROOT / "README.md")} | {plain(line) for line in shell_lines(pages.ROOT / "terraform/examples/complete/README.md")}
    unchecked = ("cargo run --release -p nodeless -- plan ", "nodeless ", "kubectl get ec2nodeclasses", "kubectl describe ", "aws eks describe-cluster ")
    shown = [plain(line) for line in shell_lines(pages.DOCS / "install/README.md")]
    others = [line for line in shown if line not in run and not line.startswith(unchecked)]
    assert shown and not others, others
