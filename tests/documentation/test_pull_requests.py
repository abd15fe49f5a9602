"""The page about pull requests, and the action that it describes: its step runs as GitHub runs it, with the binary that was built, in a
checkout of a pull request, with a `gh` that keeps its comments in a file."""

from __future__ import annotations

import io
import json
import os
import re
import stat
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pages
import plans
import pytest
import yaml
from tools import artifacts

sys.path.insert(0, str(pages.ROOT / "scripts"))

import archives  # noqa: E402
import release  # noqa: E402

FOLDER = pages.ROOT / ".github/actions/plan-diff"
sys.path.insert(0, str(FOLDER))

import plan_diff  # noqa: E402

ACTION = yaml.safe_load((FOLDER / "action.yml").read_text())
USES = "nodeless/nodeless/.github/actions/plan-diff@"
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
POOL = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: karpenter.k8s.aws/instance-cpu, operator: In, values: ["4"]}]
"""
# What `gh` does with the comments of a pull request, as the action calls it.
GH = """
import fnmatch, json, os, pathlib, sys
comments, refused = pathlib.Path(os.environ["COMMENTS"]), os.environ.get("REFUSED", "")
known = json.loads(comments.read_text())
arguments = sys.argv[1:]
assert os.environ["GH_TOKEN"] == "token", arguments
if arguments[:2] == ["release", "download"]:
    assert arguments[2:5] == ["v0.1.0", "--repo", "nodeless/nodeless"], arguments
    patterns = [arguments[place + 1] for place, word in enumerate(arguments) if word == "--pattern"]
    files = [file for file in pathlib.Path(os.environ["RELEASE"]).iterdir() if any(fnmatch.fnmatch(file.name, pattern) for pattern in patterns)]
    for file in files:
        (pathlib.Path(arguments[arguments.index("--dir") + 1]) / file.name).write_bytes(file.read_bytes())
    sys.exit(0 if files else "no assets match the file pattern")
if arguments[:2] == ["attestation", "verify"]:
    assert arguments[3:] == ["--repo", "nodeless/nodeless"] and pathlib.Path(arguments[2]).is_file(), arguments
    sys.exit(os.environ.get("UNATTESTED", "") or 0)
assert arguments[0] == "api", arguments
if arguments[1] == "graphql":
    assert "number=7" in arguments and "owner=shop" in arguments and "repository=web" in arguments, arguments
    assert "viewerDidAuthor" in arguments[arguments.index("--jq") + 1]
    for number, comment in known.items():
        if comment["own"]:
            print(json.dumps([int(number), comment["body"][:200]]))
    sys.exit(0)
if refused:
    sys.exit(refused)
method, path = arguments[arguments.index("--method") + 1], arguments[arguments.index("--method") + 2]
body = json.load(sys.stdin)["body"]
assert len(body) <= 65536
if method == "POST":
    assert path == "repos/shop/web/issues/7/comments", path
    known[str(1000 + len(known))] = {"own": True, "body": body}
else:
    number = path.removeprefix("repos/shop/web/issues/comments/")
    assert method == "PATCH" and known[number]["own"], path
    known[number]["body"] = body
comments.write_text(json.dumps(known))
"""


def deployment(replicas: int, more: str = "") -> str:
    return f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: {replicas}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      containers: [{{name: c, resources: {{requests: {{cpu: "3", memory: 1Gi}}}}}}]
{more}"""


@dataclass
class Done:
    code: int
    log: str
    summary: str
    outputs: dict[str, str]


@dataclass
class PullRequest:
    """The checkout of a pull request: the merge of its commit into the base."""

    folder: Path
    nodeless: Path
    comments: dict[str, Any] = field(default_factory=dict)

    def git(self, *arguments: str) -> str:
        author = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", *author, *arguments], cwd=self.checkout, check=True, capture_output=True, text=True).stdout.strip()

    @property
    def checkout(self) -> Path:
        return self.folder / "checkout"

    def of(self, base: str | None, head: str | None, path: str = "deploy/web.yaml") -> PullRequest:
        self.checkout.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        for text, branch in ((base, "main"), (head, "change")):
            if branch == "change":
                self.git("checkout", "--quiet", "-b", branch)
            target = self.checkout / path
            target.unlink(missing_ok=True)
            if text is not None:
                target.parent.mkdir(exist_ok=True)
                target.write_text(text)
            (self.checkout / "README.md").write_text(branch)
            self.git("add", "--all")
            self.git("commit", "--quiet", "--message", branch)
        self.base = self.git("rev-parse", "main")
        self.git("checkout", "--quiet", "main")
        self.git("merge", "--quiet", "--no-ff", "change", "--message", "merge")
        return self

    def run(self, refused: str = "", unattested: str = "", event: dict[str, Any] | None = None, **inputs: str) -> Done:
        """Runs each step of the action as the runner does."""
        bin_folder = self.folder / "bin"
        bin_folder.mkdir(exist_ok=True)
        program = bin_folder / "gh"
        program.write_text(f"#!{sys.executable}\n{GH}")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        (self.folder / "release").mkdir(exist_ok=True)
        files = {name: self.folder / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GITHUB_EVENT_PATH", "COMMENTS")}
        for file in files.values():
            file.write_text("")
        event = {"pull_request": {"number": 7, "base": {"sha": self.base}}} if event is None else event
        files["GITHUB_EVENT_PATH"].write_text(json.dumps(event))
        files["COMMENTS"].write_text(json.dumps(self.comments))
        values = {name: str(given.get("default", "")) for name, given in ACTION["inputs"].items()}
        values |= {"binary": str(self.nodeless), "head": "deploy/web.yaml"} | {name.replace("_", "-"): value for name, value in inputs.items()}
        context = {f"inputs.{name}": value.replace("${{ github.token }}", "token") for name, value in values.items()}
        code, log = 0, ""
        for step in ACTION["runs"]["steps"]:
            assert step["shell"] == "bash" and set(step) <= {"id", "shell", "env", "run"}, step
            script = self.folder / "step.sh"
            script.write_text(step["run"])
            environment = {name: EXPRESSION.sub(lambda found: context[found[1]], value) for name, value in step["env"].items()}
            environment |= {name: str(file) for name, file in files.items()}
            environment |= {"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "HOME": str(self.folder), "REFUSED": refused, "UNATTESTED": unattested}
            environment |= {"GITHUB_ACTION_PATH": str(FOLDER), "GITHUB_REPOSITORY": "shop/web", "RUNNER_TEMP": str(self.folder), "RELEASE": str(self.folder / "release")}
            command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", script]
            done = subprocess.run(command, cwd=self.checkout, env=environment, capture_output=True, text=True, check=False)
            code, log = done.returncode, log + done.stdout + done.stderr
            if code != 0:
                break
        self.comments = json.loads(files["COMMENTS"].read_text())
        outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
        assert not list(self.folder.glob("nodeless-*")), "scratch files are left"
        return Done(code, log, files["GITHUB_STEP_SUMMARY"].read_text(), outputs)

    @property
    def bodies(self) -> list[str]:
        return [comment["body"] for comment in self.comments.values()]


@pytest.fixture(scope="module")
def nodeless() -> Path:
    return artifacts.command()


@pytest.fixture
def pull_request(tmp_path: Path, nodeless: Path) -> PullRequest:
    return PullRequest(tmp_path, nodeless)


def with_pool(*documents: str) -> str:
    return "\n---".join([POOL, *documents])


def test_a_change_is_one_comment_that_later_runs_edit(pull_request: PullRequest) -> None:
    change = pull_request.of(with_pool(deployment(1)), with_pool(deployment(4)))
    change.comments = {"5": {"own": False, "body": "<!-- nodeless plan --diff:  --> of another"}}
    done = change.run()
    assert done.code == 0, done.log
    assert done.outputs["exit-code"] == "0" and re.fullmatch(r"\+3 nodes, \+\$[\d,]+ a month", done.outputs["headline"])
    assert f"### nodeless: {done.outputs['headline']}\n" in done.summary and "1 to 4 pods" in done.summary
    assert change.bodies[1] == f"<!-- nodeless plan --diff:  -->\n{done.summary.rstrip()}\n"
    assert change.run(region="eu-central-1").code == 0
    assert len(change.bodies) == 2 and "`eu-central-1`" in change.bodies[1] and change.bodies[0].endswith("of another")
    assert change.run(name="blue").code == 0 and len(change.bodies) == 3 and "**blue**" in change.bodies[2]
    assert change.run(comment="false").code == 0 and len(change.bodies) == 3


def test_no_change_is_no_comment(pull_request: PullRequest) -> None:
    change = pull_request.of(with_pool(deployment(1)), with_pool(deployment(1)))
    done = change.run()
    assert done.code == 0 and done.outputs["headline"] == "no change of nodes" and done.summary and not change.bodies, done.log
    change.comments = {"5": {"own": True, "body": "<!-- nodeless plan --diff:  -->\nearlier"}}
    assert change.run().code == 0 and "no change of nodes" in change.bodies[0]


def test_unschedulable_pods_and_increases_fail_with_a_comment(pull_request: PullRequest) -> None:
    gpu = deployment(1, "      nodeSelector: {karpenter.k8s.aws/instance-family: none}\n").replace("name: web", "name: api")
    change = pull_request.of(with_pool(deployment(1)), with_pool(deployment(4), gpu))
    done = change.run(max_increase="1")
    assert done.code == 2 and done.outputs["exit-code"] == "2" and "::error title=nodeless plan --diff::+3 nodes" in done.log, done.log
    assert "`default/api-0`" in change.bodies[0] and "to schedule: " in change.bodies[0]


def test_an_increase_over_the_limit_fails(pull_request: PullRequest) -> None:
    change = pull_request.of(with_pool(deployment(1)), with_pool(deployment(4)))
    assert change.run(max_increase="100000").code == 0
    done = change.run(max_increase="1")
    assert done.code == 3 and "the increase is more than the limit of $1" in done.outputs["headline"] and len(change.bodies) == 1, done.log


def test_pods_of_other_kinds_count_with_their_templates(pull_request: PullRequest) -> None:
    fleet = deployment(4).replace("apps/v1", "example.com/v1").replace("Deployment", "Fleet")
    change = pull_request.of(with_pool(), with_pool(fleet))
    assert "Fleet default/web" in change.run().summary, "it is named where it does not count"
    done = change.run(pod_templates="\nFleet.example.com=spec.template\n", max_increase="1")
    assert done.code == 3 and "added Fleet default/web" in done.summary.replace("`", ""), done.summary
    assert change.run(pod_templates="--help").code == 1


def test_a_fork_without_rights_gets_a_warning_and_a_summary(pull_request: PullRequest) -> None:
    change = pull_request.of(with_pool(deployment(1)), with_pool(deployment(4)))
    done = change.run(refused="gh: Resource not accessible by integration (HTTP 403)")
    assert done.code == 0 and done.summary and not change.bodies
    assert "::warning title=nodeless plan --diff::no comment was written: gh: Resource not accessible by integration (HTTP 403)" in done.log


def test_paths_may_be_added_removed_and_given(pull_request: PullRequest, tmp_path: Path) -> None:
    change = pull_request.of(None, with_pool(deployment(2)))
    assert change.run().outputs["headline"].startswith("+2 nodes")
    rendered = tmp_path / "rendered.yaml"
    rendered.write_text(with_pool(deployment(5)))
    assert change.run(base=str(rendered)).outputs["headline"].startswith("-3 nodes")
    assert change.run(event={}, base=str(rendered)).code == 0
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(with_pool(deployment(7).replace("name: web", "name: other")))
    assert "| **all** |  |  | **7** | **9** |" in change.run(cluster=str(cluster)).summary


def test_the_base_is_that_of_the_event_without_a_merge(pull_request: PullRequest) -> None:
    change = pull_request.of(with_pool(deployment(1)), with_pool(deployment(4)))
    change.git("checkout", "--quiet", "change")
    assert change.run().outputs["headline"].startswith("+3 nodes")
    failed = change.run(event={"pull_request": {"number": 7, "base": {"sha": "--upload-pack=true"}}})
    assert failed.code == 1 and "the event names no base" in failed.log


def tar(files: Mapping[str, tuple[bytes, bool]], _time: int) -> bytes:
    """An archive as a release has it, not compressed: the command of the tests is large."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, (contents, _) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(contents)
            archive.addfile(entry, io.BytesIO(contents))
    return buffer.getvalue()


def released(folder: Path, monkeypatch: pytest.MonkeyPatch, executables: Mapping[str, Path]) -> Path:
    """The files of the release 0.1.0 that scripts/release.py makes of these executables, by the targets of the compiler."""
    folder.mkdir()
    monkeypatch.setattr(release, "archive", tar)
    monkeypatch.setattr(release, "bill", lambda *_: b"{}")
    monkeypatch.setattr(release, "variables", lambda *_: {})
    monkeypatch.setattr(release, "command_files", lambda name, executable: {f"{name}/nodeless": (executable.read_bytes(), True)})
    monkeypatch.setattr(release, "build_functions", lambda *_: {})
    made = release.make_functions("0.1.0", 0, folder)
    for target, executable in executables.items():
        monkeypatch.setattr(release, "run", lambda *_, host=target, **__: f"host: {host}")
        monkeypatch.setattr(release, "build_command", lambda *_, path=executable: path)
        made |= release.make_command("0.1.0", 0, folder)
    for name, contents in made.items():
        (folder / name).write_bytes(contents)
    (folder / archives.CHECKSUMS).write_text(release.checksums(made))
    return folder


def test_a_release_is_used_if_its_checksum_and_its_attestation_are_right(pull_request: PullRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    change = pull_request.of(with_pool(deployment(1)), with_pool(deployment(4)))
    folder = released(change.folder / "release", monkeypatch, dict.fromkeys(archives.SYSTEMS, change.nodeless))
    done = change.run(binary="", version="0.1.0")
    assert done.code == 0 and len(change.bodies) == 1, done.log
    failed = change.run(binary="", version="0.1.0", unattested="verification failed")
    assert failed.code == 1 and ".tar.gz is not that of nodeless/nodeless: verification failed" in failed.log, failed.log
    older = change.run(binary="", version="0.1.0", unattested='unknown command "attestation" for "gh"')
    assert older.code == 0 and "::warning " in older.log and "update `gh`" in older.log, older.log
    sums = (folder / archives.CHECKSUMS).read_text()
    for wrong in (re.sub(r"^\w{64}", "1" * 64, sums, flags=re.M), sums.replace(".tar.gz", ".zip")):
        (folder / archives.CHECKSUMS).write_text(wrong)
        failed = change.run(binary="", version="v0.1.0")
        assert failed.code == 1 and "another checksum than its release states" in failed.log, failed.log
    (folder / archives.CHECKSUMS).unlink()
    failed = change.run(binary="", version="0.1.0")
    assert failed.code == 1 and "it has no SHA256SUMS" in failed.log, failed.log


@pytest.mark.parametrize("has_gh", [True, False])
@pytest.mark.parametrize(
    ("kernel", "machine", "target"),
    [
        ("Linux", "x86_64", "x86_64-unknown-linux-gnu"),
        ("Linux", "aarch64", "aarch64-unknown-linux-gnu"),
        ("Darwin", "x86_64", "x86_64-apple-darwin"),
        ("Darwin", "arm64", "aarch64-apple-darwin"),
    ],
)
def test_each_runner_gets_the_archive_of_its_system(
    kernel: str, machine: str, target: str, has_gh: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executables = {target: written(tmp_path / target, target) for target in archives.SYSTEMS}
    folder = released(tmp_path / "release", monkeypatch, executables)
    program = written(tmp_path / "gh", f"#!{sys.executable}\n{GH}")
    program.chmod(0o755)
    monkeypatch.setattr(plan_diff.shutil, "which", lambda _: str(program) if has_gh else None)
    values = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "RELEASE": str(folder), "COMMENTS": str(written(tmp_path / "comments", "{}"))}
    for name, value in (values | {"GH_TOKEN": "token", "INPUT_VERSION": "0.1.0", "NODELESS_RELEASE": folder.as_uri()}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(plan_diff.platform, "system", lambda: kernel)
    monkeypatch.setattr(plan_diff.platform, "machine", lambda: machine)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    binary = Path(plan_diff.nodeless(scratch))
    assert binary.read_text() == target and binary.stat().st_mode & stat.S_IXUSR


def test_a_runner_without_an_archive_gets_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INPUT_VERSION", "0.1.0")
    for kernel, machine in (("Windows", "AMD64"), ("Linux", "riscv64")):
        monkeypatch.setattr(plan_diff.platform, "system", lambda kernel=kernel: kernel)
        monkeypatch.setattr(plan_diff.platform, "machine", lambda machine=machine: machine)
        with pytest.raises(plan_diff.Failure, match="linux-amd64, linux-arm64, darwin-amd64, darwin-arm64; build nodeless"):
            plan_diff.nodeless(tmp_path)


def test_links_of_a_pull_request_lead_nowhere_else(pull_request: PullRequest) -> None:
    """Whoever opens a pull request chooses the links in it, and reads the log."""
    change = pull_request.of(with_pool(deployment(1)), with_pool(deployment(4)))
    secret = written(change.folder / "secret.yaml", "root:x:0:0:root:/root:/bin/bash")
    (change.checkout / "file.yaml").symlink_to(secret)
    (change.checkout / "all").symlink_to(change.folder)
    (change.checkout / "set").mkdir()
    (change.checkout / "set/p.yaml").symlink_to(secret)
    (change.checkout / "within.yaml").symlink_to("deploy/web.yaml")
    empty = os.devnull
    leaves = "is a symbolic link, or in one, that leaves the checkout"
    for inputs, message in (
        ({"head": "file.yaml", "base": empty}, leaves),
        ({"head": "file.yaml"}, leaves),
        ({"head": "all/secret.yaml", "base": empty}, leaves),
        ({"base": "all"}, leaves),
        ({"cluster": "file.yaml"}, leaves),
        ({"head": "set", "base": empty}, "is a symbolic link that leaves"),
    ):
        failed = change.run(**inputs)
        assert failed.code == 1 and message in failed.log and "root:" not in failed.log, failed.log
    assert change.run(head="within.yaml", base=empty).code == 0


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"head": "absent"}, "neither the pull request nor its base has absent"),
        ({"head": "../elsewhere"}, "is not in the checkout"),
        ({"head": ""}, "give `head`"),
        ({"binary": ""}, "give `version`"),
        ({"binary": "", "version": "1 --repo x/y"}, "is not a release"),
        ({"region": "mars"}, "is not an AWS region"),
        ({"max_increase": "many"}, "the manifests were not compared: error: invalid value 'many'"),
        ({"name": "a -->"}, "other characters"),
        ({"comment": "maybe"}, "give true or false"),
    ],
)
def test_what_cannot_be_compared_fails_and_writes_nothing(pull_request: PullRequest, inputs: dict[str, str], message: str) -> None:
    change = pull_request.of(with_pool(deployment(1)), with_pool(deployment(4)))
    done = change.run(**inputs)
    assert done.code == 1 and message in done.log and "::error " in done.log, done.log
    assert not done.summary and not change.bodies and not done.outputs


def test_manifests_cannot_give_commands(pull_request: PullRequest) -> None:
    """Neither a shell nor the runner takes a name for a command."""
    name = '"x\\n::error::a`touch pwned`$(touch pwned); touch pwned"'
    broken = f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec: {{replicas: many}}\n"
    change = pull_request.of(with_pool(deployment(1)), with_pool(deployment(2).replace("name: web}\nspec:\n  rep", f"name: {name}}}\nspec:\n  rep")))
    done = change.run()
    assert done.code == 0 and not list(change.checkout.glob("pwned")), done.log
    failed = change.run(base=os.devnull, head=str(written(change.folder / "broken.yaml", broken)))
    assert failed.code == 1
    stop = re.search(r"^::stop-commands::(\w+)$", failed.log, re.M)
    assert stop, failed.log
    inside = failed.log.partition(stop[0])[2].partition(f"::{stop[1]}::")[0]
    assert "replicas" in inside
    allowed = ("::error title=", "::stop-commands::", f"::{stop[1]}::")
    assert all(line.startswith(allowed) for line in failed.log.splitlines() if line.startswith("::"))


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_scripts_contain_no_expression() -> None:
    assert ACTION["runs"]["using"] == "composite"
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"]
        assert all(re.fullmatch(r"\$\{\{ inputs\.[\w-]+ \}\}", value) for value in step["env"].values())
    used = {name for step in ACTION["runs"]["steps"] for value in step["env"].values() for name in re.findall(r"inputs\.([\w-]+)", value)}
    assert used == set(ACTION["inputs"])


def test_the_documented_workflow_uses_inputs_that_exist() -> None:
    text = (pages.DOCS / "pull-requests.md").read_text()
    workflow = next(yaml.safe_load(block.text) for block in pages.code(text) if block.text.startswith("# .github/workflows/"))
    assert workflow[True] == "pull_request" and workflow["permissions"] == {"contents": "read", "pull-requests": "write"}
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    (own,) = [step for step in steps if step["uses"].startswith(USES)]
    assert FOLDER == pages.ROOT / USES.removeprefix("nodeless/nodeless/").removesuffix("@")
    assert own["uses"] == f"{USES}v{own['with']['version']}"
    required = {name for name, given in ACTION["inputs"].items() if given.get("required")}
    assert required <= set(own["with"]) <= set(ACTION["inputs"])
    others = [step["uses"] for step in steps if step is not own]
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", use) for use in others) and (pages.ROOT / ".github/workflows/ci.yml").read_text().count(others[0])
    described = re.findall(r"^\| `([\w-]+)` \| ", text.partition("| input | meaning |")[2], re.M)
    assert described == list(ACTION["inputs"])


def test_the_documented_comparison_is_what_is_printed(nodeless: Path) -> None:
    text = plans.COMPARISON.read_text()
    assert plans.with_comparison(text, nodeless) == text, "run make docs-update and read what has changed"
