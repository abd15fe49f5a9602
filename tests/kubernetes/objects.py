"""Manifests of the scenarios. Each scenario has its own NodePool, and its pods select the nodes of that NodePool."""

from __future__ import annotations

from typing import Any

from tools.control_plane.deployment import CLUSTER

IMAGE = "public.ecr.aws/eks-distro/kubernetes/pause:3.7"
POOL_LABEL = "karpenter.sh/nodepool"
HOST_LABEL = "kubernetes.io/hostname"
ZONE_LABEL = "topology.kubernetes.io/zone"


def node_class(name: str, role: str, **spec: Any) -> dict[str, Any]:
    discovery = [{"tags": {"karpenter.sh/discovery": CLUSTER}}]
    base = {"role": role, "amiSelectorTerms": [{"alias": "al2023@latest"}], "subnetSelectorTerms": discovery, "securityGroupSelectorTerms": discovery}
    return {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name}, "spec": base | spec}


def node_pool(name: str, node_class_name: str = "default", labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    requirements = [
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
        # Small nodes, so that a few pods need several.
        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["5"]},
    ]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": node_class_name}
    template = {"metadata": {"labels": labels or {}}, "spec": {"nodeClassRef": reference, "requirements": requirements}}
    # Nodes are disrupted only if a scenario enables it.
    disruption = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "Never"}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": {"template": template, "disruption": disruption} | spec}


def pod_spec(pool: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "pause", "image": IMAGE, "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return {"nodeSelector": {POOL_LABEL: pool}, "terminationGracePeriodSeconds": 0, "containers": [container]} | spec


def workload(kind: str, name: str, template: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A Deployment, StatefulSet or DaemonSet whose pods have the label `app`."""
    labels = {"app": name}
    pods = {"metadata": {"labels": labels}, "spec": template}
    body = {"selector": {"matchLabels": labels}, "template": pods} | spec
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": body}


def deployment(name: str, replicas: int, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    return workload("Deployment", name, pod_spec(name, cpu, **spec), replicas=replicas)


def apart(app: str) -> dict[str, Any]:
    """An affinity by which the pods of an app are on different nodes."""
    term = {"topologyKey": HOST_LABEL, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def budget(name: str, **spec: Any) -> dict[str, Any]:
    body = {"selector": {"matchLabels": {"app": name}}} | spec
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "default"}, "spec": body}


def storage_class() -> dict[str, Any]:
    """A StorageClass whose volumes are provisioned in the zone of the first pod, as with the EBS CSI driver."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "zonal"},
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
    }


def stateful_set(name: str, replicas: int) -> dict[str, Any]:
    """One pod for each node and zone, each with a volume."""
    spread = [{"topologyKey": ZONE_LABEL, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": name}}}]
    volume = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "zonal", "resources": {"requests": {"storage": "1Gi"}}}}
    template = pod_spec(name, topologySpreadConstraints=spread)
    return workload("StatefulSet", name, template, replicas=replicas, serviceName=name, podManagementPolicy="Parallel", volumeClaimTemplates=[volume])
