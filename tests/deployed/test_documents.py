"""The commands of the documents, run word for word: README.md, terraform/README.md, the READMEs of the examples, and those of docs/ below.

tests/tools/documents.py defines the replacements of the commands that cannot run here.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from records import recording_zips
from tools import artifacts
from tools.documents import Block, Reader, blocks
from tools.ministack import Ministack
from tools.processes import Process, wait_for
from tools.recording import DeployedProxy, signed_by_name
from tools.results import needs
from tools.terraform import ROOT, placeholder_artifacts, terraform
from tools.world import World

CLUSTER = "nodeless"
EXAMPLE = "terraform/examples/complete"
MANY_CLUSTERS = "terraform/examples/many-clusters"
README, MODULE, EXAMPLES, MOVING = "README.md", "terraform/README.md", f"{EXAMPLE}/README.md", "docs/moving.md"
SEVERAL = f"{MANY_CLUSTERS}/README.md"
START, PLAN, MAINTENANCE = "docs/start.md", "docs/plan.md", "docs/maintenance.md"
PLAN_REFERENCE, DISRUPTION = "docs/reference/plan.md", "docs/reference/disruption.md"
# The definitions that the installer applies. Cluster Autoscaler uses the last one, too.
SHARED_DEFINITION = "capacitybuffers.autoscaling.x-k8s.io"
INSTALLED = (
    "nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "nodeoverlays.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws", SHARED_DEFINITION,
)  # fmt: skip
# The test that runs the blocks under a heading. A block that is not here fails test_every_block_is_run.
RUN_BY = {
    (README, "Two commands"): "test_try_it",
    (START, "1. Watch a Deployment scale"): "test_try_it",
    (START, "2. Use a simulated cluster with kubectl"): "test_try_it",
    (START, "3. Plan for your own cluster"): "test_try_it",
    (START, "4. Simulate hours in seconds"): "test_try_it",
    (PLAN, "Instance types and prices of your account"): "test_the_catalog_of_an_account",
    (README, "Deploy"): "test_deploy_operate_and_remove",
    (MODULE, "Operate"): "test_deploy_operate_and_remove",
    (EXAMPLES, "A whole cluster with nodeless"): "test_deploy_operate_and_remove",
    (SEVERAL, "Several clusters with the functions of one deployment"): "test_several_clusters_with_one_deployment",
    (PLAN, "`nodeless plan`"): "test_deploy_operate_and_remove",
    (PLAN_REFERENCE, "The churn breaker"): "test_deploy_operate_and_remove",
    (PLAN_REFERENCE, "Replay a plan"): "test_move_back_and_remove_by_hand",
    (MAINTENANCE, "The whole cluster"): "test_try_it",
    (DISRUPTION, "Records of decisions"): "test_deploy_operate_and_remove",
    (MOVING, "Migrate back to Karpenter"): "test_move_back_and_remove_by_hand",
    (MOVING, "Move to another table"): "test_move_back_and_remove_by_hand",
    (MOVING, "Remove everything"): "test_move_back_and_remove_by_hand",
}


def under(file: str, heading: str) -> list[Block]:
    found = [block for block in blocks(file) if block.heading == heading]
    assert found, f"{file} has no commands under {heading!r}"
    return found


def test_every_block_is_run() -> None:
    examples = [str(file.relative_to(ROOT)) for file in sorted((ROOT / "terraform/examples").glob("*/README.md"))]
    assert {EXAMPLES, SEVERAL} <= set(examples)
    for file in (README, MODULE, *examples, MOVING, START, PLAN, MAINTENANCE, PLAN_REFERENCE, DISRUPTION):
        for block in blocks(file):
            runner = RUN_BY.get((file, block.heading))
            assert runner in globals(), f"{file}, {block.heading!r}: no test runs\n{block.text}"


def usages() -> list[str]:
    return re.findall(r"```hcl\n(.*?)```", (ROOT / MODULE).read_text(), re.S)


@pytest.mark.parametrize("usage", usages(), ids=["one-cluster", "several-clusters"])
def test_the_modules_usage_is_valid(usage: str, mirror: Path, tmp_path: Path) -> None:
    source = re.search(r'source *= "github.com/nodeless/nodeless//terraform"', usage)
    assert source
    shutil.copytree(ROOT / "terraform", tmp_path / "terraform", ignore=shutil.ignore_patterns(".terraform*", "*.tfstate*"))
    cluster = 'resource "aws_eks_cluster" "this" {\n  name     = "example"\n  role_arn = "arn:aws:iam::111122223333:role/x"\n  vpc_config {\n    subnet_ids = ["subnet-1"]\n  }\n}\n'
    root = tmp_path / "root"
    root.mkdir()
    placeholder_artifacts(root / "target/lambda")
    (root / "main.tf").write_text(cluster + usage.replace(source[0], 'source = "../terraform"'))
    terraform(root, "init", "-backend=false", f"-plugin-dir={mirror}")
    terraform(root, "validate")


@pytest.fixture(scope="session")
def zips(mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001 skip before building
    return signed_by_name(artifacts.function_zips(tmp_path_factory.mktemp("zips")), tmp_path_factory.mktemp("signed"))


@pytest.fixture(scope="session")
def binary(mirror: Path) -> Path:  # noqa: ARG001 skip before building
    needs("kubectl")
    return artifacts.command()


@pytest.fixture
def reader(tmp_path: Path, mirror: Path, binary: Path, logs: Path) -> Reader:
    reader = Reader(tmp_path, mirror, logs / "commands.log")
    reader.provide(nodeless=binary)
    return reader


@pytest.fixture
def world(binary: Path, tmp_path: Path, logs: Path) -> Iterator[World]:
    with World(binary, CLUSTER, tmp_path, logs) as running:
        yield running


@dataclass
class Deployed:
    """A ministack whose functions find EC2 and the cluster in the local world."""

    ministack: Ministack
    proxy: DeployedProxy

    def applied(self, state: Path) -> None:
        """After `terraform apply`."""
        self.ministack.drop_doubled_mappings(state)
        self.proxy.read_policies()


@pytest.fixture
def deployed_here(mirror: Path, world: World, reader: Reader, zips: Path, logs: Path) -> Iterator[Deployed]:  # noqa: ARG001
    ministack = Ministack(logs)
    proxy = DeployedProxy(world, ministack, logs)
    ministack.set_for_functions(proxy.endpoints())
    with ministack, proxy:
        reader.provide(aws_url=ministack.url, kubeconfig=world.kubeconfig, zips=zips)
        reader.environment |= {"AWS_ENDPOINT_URL": ministack.url}
        yield Deployed(ministack, proxy)


def test_try_it(reader: Reader, tmp_path: Path, logs: Path) -> None:
    (demo,) = under(START, "1. Watch a Deployment scale")
    reader.run(demo)
    again, tests = under(README, "Two commands")
    local, pods, interruption, records, view, removal = under(START, "2. Use a simulated cluster with kubectl")
    assert again.text == local.text
    subprocess.run([*tests.text.split(), "--dry-run"], cwd=ROOT, check=True, capture_output=True)
    # The command runs until it is ended, so that kubectl can be used beside it.
    command = local.text.split()[1:]
    kubeconfig = tmp_path / "kubeconfig"
    with Process("local", [reader.environment["READER_NODELESS"], *command, "--kubeconfig", kubeconfig], logs) as running:
        wait_for("the local world", kubeconfig.exists, 60)
        reader.environment["KUBECONFIG"] = str(kubeconfig)
        wait_for("its API server", lambda: subprocess.run(["kubectl", "get", "--raw", "/version"], env=reader.environment, capture_output=True, check=False).returncode == 0, 60)
        # The reader looks at nodes before harming one, and so do we.
        reader.run(pods)
        wait_for("a node", lambda: reader.shell("kubectl get nodes -o name\n").strip(), 60)
        reader.run(interruption)
        # The kubeconfig is found by the variable, as in the terminal in which kubectl is used, and no AWS client is configured.
        wait_for("a cost record", lambda: "Nodes of cluster local" in reader.shell("cargo nodeless report --cluster local || true\n"), 60)
        answers = reader.run(records)
        assert "provisioning" in answers and "NAMESPACE" in answers and "of local cluster local" in answers, answers
        assert json.loads((reader.checkout / "catalog.json").read_text())["region"] == "us-east-1"
        reader.run(removal)
        reader.shell("kubectl run web-0 --image=registry.k8s.io/pause\n")  # the pod that the text asks about
        for block in under(START, "3. Plan for your own cluster"):
            assert "default/web-0" in reader.run(block)
        # Without a terminal it prints the cluster once if it is asked to.
        assert "NodePool default" in reader.shell(f"{view.text.strip()} --once\n")
        (windows,) = under(MAINTENANCE, "The whole cluster")
        reader.run(windows)
        assert "maintenance" in reader.shell(f"{view.text.strip()} --once --plain\n").lower()
        assert running.ended() is None
    for block in under(START, "4. Simulate hours in seconds"):
        reader.run(block)


def test_the_catalog_of_an_account(reader: Reader, world: World) -> None:
    reader.environment |= world.endpoints()
    (block,) = under(PLAN, "Instance types and prices of your account")
    reader.run(block)
    exported = json.loads((reader.checkout / "catalog.json").read_text())
    assert exported, "the catalog that was exported is empty"


def running(world: World) -> int:
    return sum(pod["status"].get("phase") == "Running" for pod in world.items("pods", "-l", "app=inflate"))


def scale(world: World, replicas: int) -> None:
    world.kubectl("apply", "-f", str(Path(__file__).parent / "manifests/inflate.yaml"))
    world.kubectl("scale", "deployment/inflate", f"--replicas={replicas}")
    wait_for(f"{replicas} running pods", lambda: running(world) == replicas, 420, every=1)


def dead_letters(ministack: Ministack) -> dict[str, str]:
    sqs = ministack.client("sqs")
    counts = {}
    for url in sqs.list_queues(QueueNamePrefix=f"nodeless-{CLUSTER}").get("QueueUrls", []):
        if "dead-letters" in url:
            counts[url] = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])["Attributes"]["ApproximateNumberOfMessages"]
    assert len(counts) == 4
    return {url: count for url, count in counts.items() if count != "0"}


def test_deploy_operate_and_remove(deployed_here: Deployed, world: World, reader: Reader) -> None:
    ministack = deployed_here.ministack
    before = ministack.leftovers()
    # Zips of this machine.
    reader.environment["TF_VAR_architecture"] = "x86_64"
    (deploy,) = under(README, "Deploy")
    build, commands, destroy = under(EXAMPLES, "A whole cluster with nodeless")
    reader.run(build)
    shutil.rmtree(reader.checkout / "target")
    # The example's README states the same as the root's, but for where it is run.
    assert [line for line in deploy.text.splitlines()[2:]] == commands.text.splitlines()
    *applies, update, apply_manifest = deploy.text.splitlines()
    reader.shell("\n".join(applies) + "\n")
    state = reader.checkout / EXAMPLE / "terraform.tfstate"
    deployed_here.applied(state)
    cluster = ministack.client("eks").describe_cluster(name=CLUSTER)["cluster"]
    assert cluster["upgradePolicy"] == {"supportType": "STANDARD"}, "no extended support, which costs six times as much"
    outputs = {name: value["value"] for name, value in json.loads(reader.shell("terraform output -json\n", EXAMPLE)).items()}
    world.add_instance_profile(instance_profile(state), outputs["node_role_name"])
    world.redirect_webhook(ministack)
    reader.shell(f"{update}\n{apply_manifest}\n", EXAMPLE)
    scale(world, 5)
    assert not dead_letters(ministack), "a fresh installation leaves no dead letters"

    for block in under(MODULE, "Operate"):
        reader.run(block, EXAMPLE)

    look_into(reader, world)

    # Terraform destroys the logs. A plan may read the new EC2NodeClass before the catalog resolves it.
    ministack.problems.allow("has not been resolved yet")
    ministack.problems.check()
    reader.run(destroy, EXAMPLE, seconds=1200)
    assert ministack.leftovers() == before
    assert not world.instances(), "terraform destroy of the example leaves no instance"
    assert not world.items("nodepools") and not world.items("nodeclaims") and not world.items("ec2nodeclasses")


@pytest.mark.nightly
def test_several_clusters_with_one_deployment(ministack: Ministack, reader: Reader, tmp_path: Path) -> None:
    """The functions record their events; test_many_clusters.py has the real ones."""
    zips, records = recording_zips(tmp_path)
    reader.provide(aws_url=ministack.url, zips=zips)
    reader.environment |= {"AWS_ENDPOINT_URL": ministack.url, "TF_VAR_architecture": "x86_64", "TF_VAR_deletion_protection": "false"}
    eks, role = ministack.client("eks"), "arn:aws:iam::000000000000:role/cluster"
    for name in ("blue", "green", "red"):
        eks.create_cluster(name=name, roleArn=role, resourcesVpcConfig={"subnetIds": ["subnet-0a"]}, accessConfig={"authenticationMode": "API"})
    before = ministack.leftovers()
    build, apply = under(SEVERAL, "Several clusters with the functions of one deployment")
    reader.run(build)
    reader.run(apply, MANY_CLUSTERS)
    ministack.drop_doubled_mappings(reader.checkout / MANY_CLUSTERS / "terraform.tfstate")

    outputs = {name: value["value"] for name, value in json.loads(reader.shell("terraform output -json\n", MANY_CLUSTERS)).items()}
    assert {line["event"]["cluster"] for line in records.of("installer")} == {"blue", "green", "red"}
    assert set(outputs["node_role_names"]) == {"blue", "green", "red"} == set(outputs["function_names"])
    roles = ministack.leftovers()["roles"]
    for name, functions in outputs["function_names"].items():
        assert outputs["node_role_names"][name] in roles
        own = {function for function, deployed in functions.items() if deployed == f"nodeless-{name}-{function}"}
        assert own == (set(functions) if name == "blue" else {"wake", "installer"}), functions
        assert all(functions[function] == f"nodeless-blue-{function}" for function in set(functions) - own)

    # The README: to remove one of the others, remove its name from the list.
    others = '["green","red"]'
    assert others in apply.text
    *_, again = apply.text.replace(others, '["green"]').splitlines(keepends=True)
    reader.shell(again, MANY_CLUSTERS)
    left = [name for names in ministack.leftovers().values() for name in names if "nodeless-red" in name]
    assert not left and [line for line in records.of("installer") if line["event"]["cluster"] == "red"][-1]["event"]["tf"]["action"] == "delete"

    reader.shell(again.replace("apply", "destroy"), MANY_CLUSTERS)
    assert ministack.leftovers() == before


def look_into(reader: Reader, world: World) -> None:
    """The commands of docs/plan.md and its reference and that of disruption: plans of the live cluster and of an export, and the decisions in the table."""
    node = world.items("nodes")[0]["metadata"]["name"]
    pod = world.items("pods", "-l", "app=inflate")[0]["metadata"]["name"]
    names = {"TABLE": f"nodeless-{CLUSTER}", '"CLUSTER"': f'"{CLUSTER}"', "ip-10-0-0-4.ec2.internal": node, "default/web-0": f"default/{pod}"}
    reader.shell('kubectl config rename-context "$(kubectl config current-context)" production\n', EXAMPLE)
    # A manifest that is not applied, and the NodePool for it.
    inflate = (Path(__file__).parent / "manifests/inflate.yaml").read_text()
    (reader.checkout / EXAMPLE / "deployment.yaml").write_text(inflate.replace("replicas: 0", "replicas: 3"))
    shutil.copyfile(ROOT / "infra/nodepools/default.yaml", reader.checkout / EXAMPLE / "nodepool.yaml")
    # What a pull request changes.
    for side, replicas in (("base", 1), ("head", 3)):
        (reader.checkout / EXAMPLE / side).mkdir()
        (reader.checkout / EXAMPLE / side / "inflate.yaml").write_text(inflate.replace("replicas: 0", f"replicas: {replicas}"))
        shutil.copyfile(ROOT / "infra/nodepools/default.yaml", reader.checkout / EXAMPLE / side / "nodepool.yaml")

    def run(file: str, heading: str) -> str:
        (block,) = under(file, heading)
        return reader.shell(replaced(block.text, names), EXAMPLE)

    assert node in run(PLAN, "`nodeless plan`")
    assert "provisioning" in run(DISRUPTION, "Records of decisions"), "the launch that the pods needed was written down"
    run(PLAN_REFERENCE, "The churn breaker")


def replaced(text: str, names: dict[str, str]) -> str:
    """The text with the reader's own names in place of those that it shows."""
    for written, meant in names.items():
        text = text.replace(written, meant)
    return text


def instance_profile(state: Path) -> str:
    """The instance profile that Terraform made, which is to be made known in the world: in AWS there is only one IAM."""
    resources = json.loads(state.read_text())["resources"]
    (profile,) = [r for r in resources if r["type"] == "aws_iam_instance_profile"]
    return profile["instances"][0]["attributes"]["name"]


@pytest.mark.nightly
def test_move_back_and_remove_by_hand(deployed_here: Deployed, world: World, reader: Reader, zips: Path) -> None:
    ministack = deployed_here.ministack
    root = reader.checkout / "root"
    shutil.copytree(Path(__file__).parent / "root", root)
    variables = {"cluster_name": CLUSTER, "artifacts_directory": str(zips), "wake_enabled": "false", "extra_environment": "{}", "keep_snapshots": "2h"}
    reader.environment |= {f"TF_VAR_{name}": value for name, value in variables.items()}
    reader.shell("terraform init && terraform apply\n", "root")
    deployed_here.applied(root / "terraform.tfstate")
    role = json.loads(reader.shell("terraform output -json\n", "root"))["node_role_name"]["value"]
    profile = instance_profile(root / "terraform.tfstate")
    world.add_instance_profile(profile, role)
    shutil.copyfile(world.kubeconfig, reader.environment["KUBECONFIG"])
    manifest = (Path(__file__).parent / "manifests/pool.yaml").read_text().replace("NODE_ROLE", role).replace("CLUSTER_NAME", CLUSTER)
    world.kubectl("apply", "-f", "-", stdin=manifest)
    scale(world, 3)
    pods = {pod["metadata"]["uid"] for pod in world.items("pods", "-l", "app=inflate")}
    wait_for("initialized claims", lambda: all_initialized(world), 180, every=1)
    before = {i["InstanceId"]: sorted((t["Key"], t["Value"]) for t in i["Tags"]) for i in world.instances()}

    (again,) = under(PLAN_REFERENCE, "Replay a plan")
    names = {"TABLE": f"nodeless-{CLUSTER}", '"CLUSTER"': f'"{CLUSTER}"', "snapshot#2026-01-31T18:0": "snapshot#"}
    assert "default" in reader.shell(replaced(again.text, names), "root"), "a plan that was kept is made again"

    table = f"nodeless-{CLUSTER}"
    assert world.kubectl("get", "namespace", "kube-system", "-o", r"jsonpath={.metadata.annotations.nodeless\.sh/table}") == table
    pause, serve = under(MOVING, "Move to another table")
    reader.run(pause, "root")
    reader.shell(replaced(serve.text, {"NEW": table}), "root")

    pause, remove, start = under(MOVING, "Migrate back to Karpenter")
    reader.run(pause, "root")
    reader.run(remove, "root")
    reader.shell(start.text.splitlines()[0] + "\n", "root")  # there is no Karpenter here to start

    assert {i["InstanceId"]: sorted((t["Key"], t["Value"]) for t in i["Tags"]) for i in world.instances()} == before
    assert {pod["metadata"]["uid"] for pod in world.items("pods", "-l", "app=inflate")} == pods, "no pod was moved"
    check_what_karpenter_takes(world, set(before))
    iam = ministack.client("iam")
    assert iam.get_instance_profile(InstanceProfileName=profile)["InstanceProfile"]["Roles"], "nodes keep their role"
    assert not [c for c in world.items("validatingwebhookconfigurations") if c["metadata"]["name"].startswith("nodeless")]
    assert not ministack.leftovers().get("functions")

    # And back again, as from Karpenter: what Terraform has forgotten is made anew, and nothing else.
    iam.remove_role_from_instance_profile(InstanceProfileName=profile, RoleName=role)
    iam.delete_instance_profile(InstanceProfileName=profile)
    entry = next(e for e in ministack.client("eks").list_access_entries(clusterName=CLUSTER)["accessEntries"] if e.endswith(f"role/{role}"))
    ministack.client("eks").delete_access_entry(clusterName=CLUSTER, principalArn=entry)
    reader.shell("terraform apply\n", "root")
    deployed_here.applied(root / "terraform.tfstate")
    wait_for("the claims to be adopted", lambda: len(records(ministack)) == len(before), 180, every=1)
    assert {i["InstanceId"] for i in world.instances()} == set(before), "no node was replaced"

    by_hand, destroy, definitions, buffers = under(MOVING, "Remove everything")
    reader.run(by_hand, "root")
    wait_for("all instances to be gone", lambda: not world.instances(), 120)
    reader.run(destroy, "root")
    defined = definitions_of(world)
    reader.run(definitions, "root")
    assert defined - definitions_of(world) == set(INSTALLED) - {SHARED_DEFINITION}
    reader.run(buffers, "root")
    assert defined - definitions_of(world) == set(INSTALLED)


def definitions_of(world: World) -> set[str]:
    return {definition["metadata"]["name"] for definition in world.items("customresourcedefinitions")}


def records(ministack: Ministack) -> list[dict]:
    """The records of all claims in the state table."""
    found: list[dict] = []
    for shard in range(8):
        answer = ministack.client("dynamodb").query(
            TableName=f"nodeless-{CLUSTER}",
            KeyConditionExpression="pk = :shard and begins_with(sk, :kind)",
            ExpressionAttributeValues={":shard": {"S": f"{CLUSTER}#{shard}"}, ":kind": {"S": "nodeclaim#"}},
        )
        found += answer["Items"]
    return found


def all_initialized(world: World) -> bool:
    claims = world.items("nodeclaims")
    conditions = [{c["type"]: c["status"] for c in claim.get("status", {}).get("conditions", [])} for claim in claims]
    return bool(claims) and all(c.get("Initialized") == "True" and c.get("Ready") == "True" for c in conditions)


def check_what_karpenter_takes(world: World, instances: set[str]) -> None:
    """Karpenter needs these when it starts: NodeClaims that are launched, registered and initialized, with the provider IDs of
    instances whose tags name cluster, NodePool and NodeClass, and nodes without a taint of disruption."""
    claims = world.items("nodeclaims")
    assert {c["status"]["providerID"].rsplit("/", 1)[-1] for c in claims} == instances
    for claim in claims:
        assert "karpenter.sh/termination" in claim["metadata"]["finalizers"] and not claim["metadata"].get("deletionTimestamp")
        assert claim["metadata"]["labels"]["karpenter.sh/nodepool"] == "default"
        statuses = {c["type"]: c["status"] for c in claim["status"]["conditions"]}
        assert statuses["Launched"] == statuses["Registered"] == statuses["Initialized"] == "True"
    for instance in world.instances():
        tags = {t["Key"]: t["Value"] for t in instance["Tags"]}
        assert tags[f"kubernetes.io/cluster/{CLUSTER}"] == "owned" and tags["karpenter.sh/nodepool"] == "default"
        assert tags["eks:eks-cluster-name"] == CLUSTER and tags["karpenter.k8s.aws/ec2nodeclass"] == "default"
    for node in world.items("nodes"):
        assert not [t for t in node["spec"].get("taints", []) if t["key"] == "karpenter.sh/disrupted"]
        assert "karpenter.sh/termination" in node["metadata"]["finalizers"]
