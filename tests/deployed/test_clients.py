"""Programs of others work against `nodeless local`: Kustomize (in kubectl) and the Python client. tests/kubernetes has Helm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client, config, watch
from tools import artifacts
from tools.processes import wait_for
from tools.world import World

@pytest.fixture
def world(tmp_path: Path, logs: Path) -> Iterator[World]:
    """A local cluster in which nodeless runs, with a NodePool."""
    with World(artifacts.command(), "clients", tmp_path, logs, "--with-nodepool", "--speed", "20") as running:
        yield running


def running_pods(world: World, selector: str) -> int:
    pods = world.items("pods", "--selector", selector)
    return sum(pod["status"].get("phase") == "Running" for pod in pods)


def test_kustomize_applies_and_prunes(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "deployment.yaml").write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: { name: web }\n"
        "spec:\n  replicas: 2\n  selector: { matchLabels: { app: web } }\n  template:\n    metadata: { labels: { app: web } }\n"
        "    spec: { containers: [ { name: web, image: registry.k8s.io/pause, resources: { requests: { cpu: '1' } } } ] }\n"
    )
    (folder / "kustomization.yaml").write_text(
        "resources: [deployment.yaml]\nnamePrefix: blue-\nconfigMapGenerator:\n- name: settings\n  literals: [a=b]\n"
    )
    applied = world.kubectl("apply", "-k", str(folder))
    assert "deployment.apps/blue-web created" in applied
    assert "configmap/blue-settings-" in applied
    wait_for("the pods of the Deployment", lambda: running_pods(world, "app=web") == 2, 120)
    assert "unchanged" in world.kubectl("apply", "-k", str(folder))
    world.kubectl("delete", "-k", str(folder))


def test_the_python_client_creates_and_watches(world: World) -> None:
    config.load_kube_config(str(world.kubeconfig))
    core = client.CoreV1Api()
    container = client.V1Container(name="c", image="registry.k8s.io/pause", resources=client.V1ResourceRequirements(requests={"cpu": "1"}))
    pod = client.V1Pod(metadata=client.V1ObjectMeta(name="one"), spec=client.V1PodSpec(containers=[container]))
    core.create_namespaced_pod("default", pod)
    seen = [event["object"].status.phase for event in phases(core, "one")]
    assert seen[0] == "Pending"
    assert seen[-1] == "Running"
    node = core.read_node(core.read_namespaced_pod("one", "default").spec.node_name)
    assert node.metadata.labels["karpenter.sh/nodepool"] == "default"
    claims = client.CustomObjectsApi().list_cluster_custom_object("karpenter.sh", "v1", "nodeclaims")["items"]
    assert [claim["status"]["nodeName"] for claim in claims] == [node.metadata.name]


def phases(core: client.CoreV1Api, name: str) -> Iterator[dict[str, object]]:
    """The events of a pod up to the one in which it runs."""
    watcher = watch.Watch()
    for event in watcher.stream(core.list_namespaced_pod, "default", field_selector=f"metadata.name={name}", timeout_seconds=120):
        yield event
        if event["object"].status.phase == "Running":
            watcher.stop()
