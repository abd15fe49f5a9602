"""Compares the manifests of a pull request with those of its base, and writes the result into the summary of the job and a comment.

Inputs are the environment variables INPUT_*, see action.yml. It needs `git`, and `gh` for a comment and to verify who built a release. The
exit code is that of `nodeless plan --diff`. A comment that cannot be written is a warning: a pull request of a fork has no token with that
right.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path

# GitHub downloads the whole repository for an action in a folder of it.
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))

import archives  # noqa: E402

REPOSITORY = "nodeless/nodeless"
# The exit codes of a comparison that was made: no further unschedulable pod, some, and a larger increase than is allowed.
COMPARED = (0, 2, 3)
UNCHANGED = "no change of nodes"
COMMENTS = """
query($owner: String!, $repository: String!, $number: Int!, $endCursor: String) {
  repository(owner: $owner, name: $repository) {
    pullRequest(number: $number) {
      comments(first: 100, after: $endCursor) {
        nodes { databaseId viewerDidAuthor body }
        pageInfo { hasNextPage endCursor }
      }
    }
  }
}
"""
# Of each comment of this token its number and the beginning, in a line of JSON.
OWN_COMMENTS = ".data.repository.pullRequest.comments.nodes[] | select(.viewerDidAuthor) | [.databaseId, .body[:200]] | @json"


class Failure(Exception):
    """Why nothing is compared, and what to do."""


def given(name: str) -> str:
    """An input; empty if it is not set."""
    return os.environ.get(f"INPUT_{name}", "").strip()


def escaped(text: str) -> str:
    """A text in a command of a workflow."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def annotate(kind: str, text: str) -> None:
    print(f"::{kind} title=nodeless plan --diff::{escaped(text)}", flush=True)


def show(text: str) -> None:
    """Prints a text with names of others, in which the runner looks for no command."""
    token = secrets.token_hex(16)
    print(f"::stop-commands::{token}\n{text.rstrip()}\n::{token}::", flush=True)


def run(*command: str, stdin: str = "", directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, input=stdin, cwd=directory, capture_output=True, text=True, encoding="utf-8", errors="replace", check=False)
    except OSError as error:
        raise Failure(f"{command[0]} cannot be started: {error}") from error


def download(version: str, names: tuple[str, ...], scratch: Path) -> None:
    """Downloads files of a release."""
    refused = f"the release v{version} of {REPOSITORY} cannot be read"
    if shutil.which("gh"):
        files = [part for name in names for part in ("--pattern", name)]
        done = run("gh", "release", "download", f"v{version}", "--repo", REPOSITORY, "--dir", str(scratch), *files)
        missing = [name for name in names if not (scratch / name).is_file()]
        if done.returncode != 0 or missing:
            raise Failure(f"{refused}: {done.stderr.strip() or 'it has no ' + ', '.join(missing)}")
        return
    address = os.environ.get("NODELESS_RELEASE") or f"https://github.com/{REPOSITORY}/releases/download/v{version}"
    for name in names:
        try:
            with urllib.request.urlopen(f"{address}/{name}", timeout=60) as answer:
                (scratch / name).write_bytes(answer.read())
        except OSError as error:
            raise Failure(f"{refused}: {address}/{name}: {error}") from error


def verify(archive: Path) -> None:
    """Verifies that the release workflow of the repository built an archive."""
    if not shutil.which("gh"):
        return annotate("notice", f"the attestation of {archive.name} is not verified, because `gh` is not installed; its checksum is right")
    done = run("gh", "attestation", "verify", str(archive), "--repo", REPOSITORY)
    if done.returncode != 0 and done.stderr.startswith('unknown command "attestation"'):
        return annotate("warning", f"the attestation of {archive.name} is not verified; update `gh` to 2.49 or newer")
    if done.returncode != 0:
        raise Failure(f"the attestation of {archive.name} is not that of {REPOSITORY}: {done.stderr.strip()}")
    return None


def nodeless(scratch: Path) -> str:
    """The binary: that of the input, or of a release."""
    binary, version = given("BINARY"), given("VERSION").removeprefix("v")
    if binary:
        return str(Path(binary).resolve())
    if not version:
        raise Failure("give `version` (a release of nodeless, such as 0.1.0) or `binary` (a path)")
    if not re.fullmatch(r"[0-9A-Za-z.+-]+", version):
        raise Failure(f"version: {version!r} is not a release")
    system = archives.system_named(platform.system(), platform.machine())
    if system is None:
        known = ", ".join(archives.SYSTEMS.values())
        raise Failure(f"a release has binaries for {known}; build nodeless for this runner, and give its path as `binary`")
    archive = archives.archive_name(version, system)
    download(version, (archive, archives.CHECKSUMS), scratch)
    listed = [line.split() for line in (scratch / archives.CHECKSUMS).read_text(encoding="utf-8").splitlines()]
    if [hashlib.sha256((scratch / archive).read_bytes()).hexdigest(), archive] not in listed:
        raise Failure(f"{archive} has another checksum than its release states")
    verify(scratch / archive)
    with tarfile.open(scratch / archive) as files_of:
        member = files_of.extractfile(f"nodeless-{version}/nodeless")
        if member is None:
            raise Failure(f"{archive} contains no binary")
        binary_file = scratch / "nodeless"
        binary_file.write_bytes(member.read())
    binary_file.chmod(0o755)
    return str(binary_file)


def event() -> dict[str, object]:
    path = os.environ.get("GITHUB_EVENT_PATH")
    return json.loads(Path(path).read_text(encoding="utf-8")) if path else {}


def pull_request() -> dict[str, object]:
    """The pull request of the event; empty for another event."""
    found = event().get("pull_request")
    return found if isinstance(found, dict) else {}


def base_commit() -> str:
    """The commit to compare with. The checkout of a pull request is its merge into the base, whose first parent is the base; without
    its parents, it is the base that the event names."""
    if run("git", "rev-parse", "--verify", "--quiet", "HEAD^2").returncode == 0:
        return run("git", "rev-parse", "HEAD^1").stdout.strip()
    base = pull_request().get("base")
    commit = str(base.get("sha", "")) if isinstance(base, dict) else ""
    if not re.fullmatch(r"[0-9a-f]{40,64}", commit):
        raise Failure("the event names no base; run the action for pull_request, or give the manifests of the base as `base`")
    if run("git", "cat-file", "-e", f"{commit}^{{commit}}").returncode != 0:
        fetched = run("git", "fetch", "--no-tags", "--depth=1", "origin", commit)
        if fetched.returncode != 0:
            raise Failure(f"the base commit {commit} cannot be fetched: {fetched.stderr.strip()}; set fetch-depth: 2 of actions/checkout")
    return commit


def refuse_link(name: str, value: str, path: Path, root: Path) -> None:
    """A path in the checkout is chosen by the workflow, but what is there by the pull request."""
    root, lexical = root.resolve(), Path(os.path.normpath(Path.cwd().resolve() / path))
    if lexical.is_relative_to(root) and not lexical.resolve().is_relative_to(root):
        raise Failure(f"{name}: {value} is a symbolic link, or in one, that leaves the checkout")


def sets(scratch: Path) -> tuple[str, str]:
    """The paths of both sets of manifests. A path that a commit does not have has no objects there: it was added or removed."""
    head, base = given("HEAD"), given("BASE")
    if not head:
        raise Failure("give `head`, the path of the manifests")
    root = Path(run("git", "rev-parse", "--show-toplevel").stdout.strip() or ".").resolve()
    for name, value in (("head", head), ("base", base), ("cluster", given("CLUSTER"))):
        refuse_link(name, value, Path(value), root)
    if base:
        return base, head
    try:
        path = Path(os.path.normpath(Path.cwd().resolve() / head)).relative_to(root)
    except ValueError as error:
        raise Failure(f"head: {head} is not in the checkout; give `base` too") from error
    added = run("git", "worktree", "add", "--detach", str(scratch / "base"), base_commit())
    if added.returncode != 0:
        raise Failure(f"the base commit cannot be checked out: {added.stderr.strip()}")
    both = (scratch / "base" / path, root / path)
    refuse_link("head", f"{head} of the base", both[0], scratch / "base")
    if not any(each.exists() for each in both):
        raise Failure(f"head: neither the pull request nor its base has {head}")
    old, new = (str(each) if each.exists() else os.devnull for each in both)
    return old, new


def compared(binary: str, base: str, head: str) -> subprocess.CompletedProcess[str]:
    options = {"--cluster": given("CLUSTER"), "--region": given("REGION"), "--max-increase": given("MAX_INCREASE")}
    flags = [part for flag, value in options.items() if value for part in (flag, value)]
    # With "=", because a value that begins with a dash would be an option.
    flags += [f"--pod-template={line.strip()}" for line in given("POD_TEMPLATES").splitlines() if line.strip()]
    return run(binary, "plan", "--diff", base, head, *flags, "-o", "markdown")


def append(variable: str, text: str) -> None:
    """Appends to a file that the runner reads."""
    path = os.environ.get(variable)
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)


def comment(number: int, marker: str, body: str, headline: str) -> None:
    """Writes the comment, or changes that of an earlier run. Without a change and an earlier comment, there is none."""
    repository = os.environ["GITHUB_REPOSITORY"]
    owner, _, name = repository.partition("/")
    variables = ["-f", f"owner={owner}", "-f", f"repository={name}", "-F", f"number={number}", "-f", f"query={COMMENTS}"]
    listed = run("gh", "api", "graphql", "--paginate", *variables, "--jq", OWN_COMMENTS)
    if listed.returncode != 0:
        return annotate("warning", f"the comments of the pull request cannot be read: {listed.stderr.strip()}")
    own = [json.loads(line) for line in listed.stdout.splitlines() if line.strip()]
    earlier = next((number for number, text in own if text.startswith(marker)), None)
    if earlier is None and headline == UNCHANGED:
        return None
    method, path = ("POST", f"issues/{number}/comments") if earlier is None else ("PATCH", f"issues/comments/{int(earlier)}")
    text = json.dumps({"body": f"{marker}\n{body}"})
    written = run("gh", "api", "--silent", "--method", method, f"repos/{repository}/{path}", "--input", "-", stdin=text)
    if written.returncode != 0:
        why = f"no comment was written: {written.stderr.strip()}"
        annotate("warning", f"{why}; it needs the permission pull-requests: write, which a pull request of a fork does not have")
    return None


def main() -> int:
    name = given("NAME")
    if not re.fullmatch(r"[A-Za-z0-9.-]*", name):
        raise Failure(f"name: {name!r} has other characters than letters, digits, dots and dashes")
    if given("COMMENT") not in ("true", "false"):
        raise Failure("comment: give true or false")
    scratch = Path(tempfile.mkdtemp(prefix="nodeless-", dir=os.environ.get("RUNNER_TEMP")))
    try:
        done = compared(nodeless(scratch), *sets(scratch))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        run("git", "worktree", "prune")
    if done.stderr.strip():
        show(done.stderr)
    if done.returncode not in COMPARED:
        raise Failure(f"the manifests were not compared: {(done.stderr.strip() or 'no message').splitlines()[0]}")
    headline = done.stdout.partition("\n")[0].removeprefix("### nodeless: ")
    body = f"**{name}**\n\n{done.stdout}" if name else done.stdout
    append("GITHUB_STEP_SUMMARY", f"{body}\n")
    append("GITHUB_OUTPUT", f"headline={headline}\nexit-code={done.returncode}\n")
    number = pull_request().get("number")
    if given("COMMENT") == "true" and isinstance(number, int):
        comment(number, f"<!-- nodeless plan --diff: {name} -->", body, headline)
    annotate("notice" if done.returncode == 0 else "error", f"{name}: {headline}" if name else headline)
    return done.returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        annotate("error", str(failure))
        sys.exit(1)
