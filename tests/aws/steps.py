"""The steps of the first hour, in AWS and on the emulators alike. Each brings about what it needs, so that one may fail and the
next still be tried."""

from __future__ import annotations

import json
import subprocess
import time
from datetime import datetime, timezone
from typing import Any

import boto3
from botocore.exceptions import ClientError

from tools.terraform import ROOT

from .hour import Hour, Step
from .remains import remains

MANIFEST = ROOT / "tests/deployed/manifests/inflate.yaml"
CAPACITY = "karpenter.sh/capacity-type"
# At most one pod of the deployment on a node.
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {"matchLabels": {"app": "inflate"}}, "topologyKey": "kubernetes.io/hostname"}]}}


def everything(hour: Hour) -> None:
    """All steps between the apply and the destroy."""
    for name, run in [
        ("scale up, woken by the API server", scale_up),
        ("spot: all pods on spot nodes", spot),
        ("drift: the EC2NodeClass changes", drift),
        ("interruption of a spot instance", interruption),
        ("consolidation: three nodes become fewer", consolidation),
        ("warm nodes: a stopped instance is started", warm),
        ("scale down: no node without pods stays", scale_down),
    ]:
        with hour.step(name) as step:
            run(hour, step)


def apply(hour: Hour, step: Step) -> None:
    """The example, and an EC2NodeClass and a NodePool from its outputs."""
    place = hour.place
    place.copy_example()
    place.terraform("init", *place.init_arguments())
    hour.cluster_begun = datetime.now(timezone.utc)
    place.terraform("apply", "-auto-approve")
    place.connect()
    step.seen.append("terraform apply has ended, the installer and the first catalog with it")
    hour.observe("eks-access-entry-delay", True, "installer and catalog reached the API server in the apply that made their access entries")
    installer_is_no_cluster_admin(hour)
    hour.observe("eks-sts-regional", True, "the API server took the functions' tokens, which are signed for the region's STS endpoint")
    waiting = [p["metadata"]["name"] for p in place.items("pods", "-l", "k8s-app=kube-dns") if p["status"].get("phase") == "Pending"]
    hour.observe("eks-addons-pending", True if waiting else None, f"before there was a NodePool, pods of CoreDNS that were pending: {len(waiting)}")
    hour.spot_role_before = has_spot_role(hour)
    place.kubectl("apply", "-f", "-", stdin=place.outputs()["node_pool"])
    # An hour is short: in the NodePool of infra/nodepools a node is spared for a minute.
    place.kubectl("patch", "nodepool/default", "--type=merge", "-p", '{"spec":{"disruption":{"consolidateAfter":"20s"}}}')
    place.kubectl("apply", "-f", str(MANIFEST))
    class_is_ready(hour, step, "the new EC2NodeClass")
    hour.observe("ssm-public-parameters", True, "the EC2NodeClass is ready, whose alias catalog resolved by Amazon's parameters")
    hour.wait("the nodepool to be ready", lambda: all_have(place.items("nodepool"), "Ready"), 9)
    # The add-ons of a new cluster have waited for the first node.
    hour.wait("the pods of kube-system to run", lambda: not [p for p in place.items("pods") if p["status"].get("phase") != "Running"], 12)
    step.seen.append(f"{len(place.items('pods'))} pods of the cluster's own run on {len(place.items('nodes'))} nodes")


def installer_is_no_cluster_admin(hour: Hour) -> None:
    """The installer was cluster-admin while Terraform invoked it, and has no access policy afterwards."""
    role = hour.place.client("lambda").get_function_configuration(FunctionName=f"nodeless-{hour.place.cluster}-installer")["Role"]
    associated = hour.place.client("eks").list_associated_access_policies(clusterName=hour.place.cluster, principalArn=role)["associatedAccessPolicies"]
    assert not associated, f"the installer still has the access policies {associated}"
    how = "the installer associated an access policy with its access entry, installed, and ended the association"
    hour.observe("eks-access-policy-delay", True, how)
    hour.observe("eks-access-policy-keys", True, how)
    hour.observe("eks-access-entry-arn", True, how)


def scale_up(hour: Hour, step: Step) -> None:
    """Five pods get nodes; one instance for each claim, with its tags; and the API server calls wake."""
    place = hour.place
    before = {i["InstanceId"] for i in place.instances()}
    woken = invocations(hour, "wake")
    begun = datetime.now(timezone.utc)
    scale(hour, "inflate", 5)
    converge(hour, 5)
    hour.observe("eks-node-role-entry", True, f"{len(place.items('nodes'))} nodes joined, by the access entry of their role")
    new = [i for i in hour.look() if i["InstanceId"] not in before]
    step.seen.append(f"{len(new)} new instances: " + ", ".join(describe(i) for i in new))
    if new:
        first = min(i["LaunchTime"] for i in new)
        step.seen.append(f"from scaling to the first launch: {(first - begun).total_seconds():.0f} s, by EC2's clock and this machine's")
    calls = invocations(hour, "wake") - woken
    hour.observe("lambda-url-from-api-server", calls > 0, f"wake was invoked {calls} times while five pods were pending")
    assert calls > 0, "the API server did not call wake"
    check_tags(hour, step)


def spot(hour: Hour, step: Step) -> None:
    """Pods that ask for spot get spot nodes."""
    place = hour.place
    scale(hour, "inflate", 5)
    patch_pods(hour, {"nodeSelector": {CAPACITY: "spot"}})
    converge(hour, 5)
    nodes = {n["metadata"]["name"]: n for n in place.items("nodes")}
    kinds = {nodes[p["spec"]["nodeName"]]["metadata"]["labels"][CAPACITY] for p in pods(hour)}
    assert kinds == {"spot"}, f"pods run on {kinds}"
    by_id = {i["InstanceId"]: i for i in hour.look()}
    for node in nodes.values():
        instance = by_id.get(instance_of(node))
        stated = node["metadata"]["labels"].get(CAPACITY)
        is_spot = instance is not None and instance.get("InstanceLifecycle") == "spot"
        assert instance is None or (stated == "spot") == is_spot, f"node {node['metadata']['name']} states {stated}, EC2 {instance.get('InstanceLifecycle')}"
    step.seen.append(f"{sum(i.get('InstanceLifecycle') == 'spot' for i in by_id.values())} of {len(by_id)} instances are spot, as their nodes state")
    before, now = hour.spot_role_before, has_spot_role(hour)
    states = {None: "not known", False: "not there", True: "there"}
    hour.observe("ec2-spot-role", now if before is False and now is not None else None, f"the role of spot instances was {states[before]} before the first launch, and is {states[now]}")


def drift(hour: Hour, step: Step) -> None:
    """Every node is replaced when the EC2NodeClass gets another tag, and new instances carry it."""
    place = hour.place
    scale(hour, "inflate", 2)
    converge(hour, 2)
    old = {i["InstanceId"] for i in hour.look()}
    mark = datetime.now(timezone.utc).strftime("%H%M%S")
    place.kubectl("patch", "ec2nodeclass/default", "--type=merge", "-p", json.dumps({"spec": {"tags": {"first-hour": mark}}}))
    class_is_ready(hour, step, "the changed EC2NodeClass")
    hour.wait("all nodes to be replaced", lambda: not old & {i["InstanceId"] for i in place.instances()} and bool(place.instances()), 25)
    converge(hour, 2)
    tags = [tags_of(i).get("first-hour") for i in hour.look()]
    assert set(tags) == {mark}, f"new instances carry first-hour={tags}"
    step.seen.append(f"{len(old)} instances were replaced by {len(tags)}")
    gone(hour, sorted(old))


def interruption(hour: Hour, step: Step) -> None:
    """EC2 takes a spot instance back: its node is drained and its pods run elsewhere."""
    place = hour.place
    # Instances have ended already, and nothing else was put on the bus or into the queue.
    reported = invocations(hour, "interruption")
    hour.observe("events-state-change", True if reported else None, f"interruption was invoked {reported} times before the first interruption")
    scale(hour, "inflate", 2)
    patch_pods(hour, {"nodeSelector": {CAPACITY: "spot"}})
    converge(hour, 2)
    used = {p["spec"]["nodeName"] for p in pods(hour)}
    node = next(n for n in place.items("nodes") if n["metadata"]["name"] in used)
    instance = instance_of(node)
    asked = datetime.now(timezone.utc)
    how = place.interrupt(node, instance)
    step.seen.append(f"interrupted by {how}")
    hour.experiment_minutes += 3 if place.is_aws else 0
    name = node["metadata"]["name"]
    hour.wait("the node to be tainted", lambda: all(map(leaves, [n for n in place.items("nodes") if n["metadata"]["name"] == name])), 5)
    state = {i["InstanceId"]: i["State"]["Name"] for i in place.instances()}.get(instance, "gone")
    report = f"{(datetime.now(timezone.utc) - asked).total_seconds():.0f} s after it was asked for, the node is tainted and drained, and the instance is {state}"
    step.seen.append(report)
    # Gone already, it reports nothing: nodeless drains fast, and may have terminated the instance itself.
    hour.observe("events-spot-warning", True if state == "running" else None, f"{report} ({how})")
    hour.wait("the instance to be gone", lambda: instance not in {i["InstanceId"] for i in place.instances()}, 8)
    converge(hour, 2)
    gone(hour, [instance])
    reason = state_reason(hour, instance)
    # nodeless drains fast, and may have terminated the instance before EC2 took it back.
    hour.observe("ec2-state-reason", True if reason == "Server.SpotInstanceTermination" else None, f"the interrupted instance ended for the reason {reason}")


def consolidation(hour: Hour, step: Step) -> None:
    """Pods that kept apart, and that ask for less, need fewer nodes. Spot nodes are not replaced by cheaper ones unless a feature gate
    reports it, but those whose pods fit on others go."""
    place = hour.place
    scale(hour, "inflate", 3)
    patch_pods(hour, {"affinity": APART})
    converge(hour, 3)
    hour.wait("pods on three nodes", lambda: len({p["spec"].get("nodeName") for p in pods(hour)}) == 3, 3)
    before = len(place.items("nodes"))
    small = {"name": "inflate", "resources": {"requests": {"cpu": "250m", "memory": "128Mi"}}}
    patch_pods(hour, {"affinity": None, "containers": [small]})
    hour.wait("fewer than three nodes with pods, and none that is on its way", lambda: calm(hour) and len(place.items("nodes")) < min(before, 3), 20)
    converge(hour, 3)
    step.seen.append(f"{before} nodes became {len(place.items('nodes'))}")


def warm(hour: Hour, step: Step) -> None:
    """An instance that joined once and was stopped is started for a pod, and its kubelet registers the Node again."""
    place, names = hour.place, dict[str, str]()
    scale(hour, "inflate", 1)
    patch_pods(hour, {"affinity": APART, "nodeSelector": {CAPACITY: "on-demand"}})
    converge(hour, 1)

    def stopped() -> list[str]:
        names.update({instance_of(n): n["metadata"]["name"] for n in place.items("nodes")})
        off = {i["InstanceId"] for i in place.instances() if i["State"]["Name"] == "stopped"}
        claims = [c["status"] for c in place.items("nodeclaims") if any(k["reason"] == "Stopped" for k in c.get("status", {}).get("conditions", []))]
        return sorted(off & {status["providerID"].rsplit("/", 1)[-1] for status in claims})

    place.kubectl("annotate", "nodepool/default", "nodeless.sh/warm=1")
    try:
        (instance,) = hour.wait("a NodeClaim whose instance is stopped", stopped, 12)
        on_demand = [n for n in place.items("nodes") if n["metadata"]["labels"].get(CAPACITY) == "on-demand"]
        replicas = len(on_demand) + 1
        begun = time.monotonic()
        scale(hour, "inflate", replicas)
        hour.wait(f"{replicas} running pods", lambda: sum(ready(p) for p in pods(hour)) == replicas, 15)
        seconds = time.monotonic() - begun
        again = {instance_of(n): n["metadata"]["name"] for n in place.items("nodes")}.get(instance)
    finally:
        place.kubectl("annotate", "nodepool/default", "nodeless.sh/warm-")
    seen = f"{instance} was the node {names.get(instance)} before its stop, and {again or 'no node'} after its start; its pod ran {seconds:.0f} s after it was asked for"
    step.seen.append(seen)
    assert again, "the pod got another node than that of the stopped instance"
    hour.observe("ec2-start-kubelet", again == names.get(instance), seen)
    converge(hour, replicas)


def scale_down(hour: Hour, step: Step) -> None:
    """Nodes that run nothing but DaemonSets go, and with each its claim and its instance."""
    place = hour.place
    scale(hour, "inflate", 0)

    def busy() -> set[str]:
        return {p["spec"].get("nodeName", "") for p in place.items("pods") if not any(o["kind"] == "DaemonSet" for o in p["metadata"].get("ownerReferences", []))}

    hour.wait("nodes without pods to be gone", lambda: {n["metadata"]["name"] for n in place.items("nodes")} <= busy() and calm(hour), 15)
    assert not pods(hour)
    step.seen.append(f"{len(place.items('nodes'))} nodes are left, for pods of the cluster's own")
    check_planner(hour, step)
    letters = dead_letters(hour)
    assert not letters, f"messages were given up: {letters}"


def destroy(hour: Hour, step: Step) -> None:
    """terraform destroy, with nodes that run, and then nothing is left."""
    place = hour.place
    place.terraform("destroy", "-auto-approve")
    hour.cluster_ended = datetime.now(timezone.utc)
    place.disconnect()
    place.clean_up_interruption()
    # Lists of AWS show for a while what is gone: alarms, stacks, network interfaces of functions.
    tries = 7 if place.is_aws else 1
    for attempt in range(tries):
        hour.left, hour.unasked = remains(place)
        if not hour.left or attempt == tries - 1:
            break
        time.sleep(30)
    kept = sorted({"volumes", "network interfaces"} & hour.left.keys())
    asked = not {"volumes", "network interfaces"} & set(hour.unasked)
    hour.observe("ec2-delete-on-termination", not kept if asked else None, f"of the instances are left: {', '.join(kept) or 'nothing that could be listed'}")
    assert not hour.left, f"left behind: {hour.left}"
    step.seen.append("nothing is left, by tag and by name" + (f"; not asked for, because the emulators cannot list it: {', '.join(hour.unasked)}" if hour.unasked else ""))


def class_is_ready(hour: Hour, step: Step, which: str) -> None:
    """The EC2NodeClass is ready for its present spec. The API server calls wake, and the planner the catalog function; the schedule of the
    catalog function would take up to five minutes."""
    begun = time.monotonic()
    hour.wait(f"{which} to be ready", lambda: ready_now(hour.place.items("ec2nodeclass")), 9)
    step.seen.append(f"{which} was ready {time.monotonic() - begun:.0f} s after it was applied")


def ready_now(classes: list[dict[str, Any]]) -> bool:
    """Whether every object is ready for its present generation."""
    ready = [(c["metadata"]["generation"], k) for c in classes for k in c.get("status", {}).get("conditions", []) if k["type"] == "Ready"]
    return len(ready) == len(classes) > 0 and all(k["status"] == "True" and k.get("observedGeneration") == generation for generation, k in ready)


def converge(hour: Hour, replicas: int) -> None:
    """Waits until this number of pods run, all claims are initialized, and claims, nodes and instances match."""
    hour.wait(f"{replicas} running pods", lambda: sum(ready(p) for p in pods(hour)) == replicas == len(pods(hour)), 15)
    hour.wait("claims, nodes and instances to agree", lambda: calm(hour), 15)


def calm(hour: Hour) -> bool:
    """Whether every instance is an initialized claim and a node, and none is leaving."""
    place = hour.place
    claims, nodes, instances = place.items("nodeclaims"), place.items("nodes"), {i["InstanceId"] for i in place.instances()}
    if any(map(leaves, nodes)) or not all_have(claims, "Initialized", none=True):
        return False
    claimed = [c["status"].get("providerID", "").rsplit("/", 1)[-1] for c in claims]
    return len(claimed) == len(set(claimed)) and set(claimed) == instances == {instance_of(n) for n in nodes}


def leaves(node: dict[str, Any]) -> bool:
    """Whether a node is being removed. The claim's object is deleted only at the end."""
    return bool(node["metadata"].get("deletionTimestamp")) or any(t["key"] == "karpenter.sh/disrupted" for t in node["spec"].get("taints", []))


def scale(hour: Hour, deployment: str, replicas: int) -> None:
    hour.place.kubectl("scale", f"deployment/{deployment}", f"--replicas={replicas}")


def patch_pods(hour: Hour, spec: dict[str, Any]) -> None:
    """Changes the pods of the deployment, which are made anew."""
    patch = {"spec": {"template": {"spec": spec}}}
    hour.place.kubectl("patch", "deployment/inflate", "--type=strategic", "-p", json.dumps(patch))
    hour.place.kubectl("rollout", "status", "deployment/inflate", "--timeout=15m")


def pods(hour: Hour) -> list[dict[str, Any]]:
    return hour.place.items("pods", "-l", "app=inflate")


def ready(pod: dict[str, Any]) -> bool:
    return pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")


def all_have(items: list[dict[str, Any]], condition: str, none: bool = False) -> bool:
    """Whether every object has this condition; `none` is the result without objects."""
    conditions = [{c["type"]: c["status"] for c in item.get("status", {}).get("conditions", [])} for item in items]
    return all(c.get(condition) == "True" for c in conditions) if conditions else none


def instance_of(node: dict[str, Any]) -> str:
    return str(node["spec"].get("providerID", "")).rsplit("/", 1)[-1]


def tags_of(resource: dict[str, Any]) -> dict[str, str]:
    return {t["Key"]: t["Value"] for t in resource.get("Tags", [])}


def describe(instance: dict[str, Any]) -> str:
    return f"{instance['InstanceType']} {instance.get('InstanceLifecycle', 'on-demand')} in {instance['Placement']['AvailabilityZone']}"


def invocations(hour: Hour, function: str) -> int:
    return sum(event["message"].startswith("START RequestId") for event in hour.place.log_events(function))


def check_tags(hour: Hour, step: Step) -> None:
    """Every instance has the tags that policies and sweeps use."""
    cluster, instances = hour.place.cluster, hour.look()
    for instance in instances:
        tags = tags_of(instance)
        assert tags.get(f"kubernetes.io/cluster/{cluster}") == "owned" and tags.get("eks:eks-cluster-name") == cluster, tags
        assert tags.get("karpenter.sh/nodepool") == "default", tags
    fleets = {tags_of(i).get("aws:ec2:fleet-id", "") for i in instances}
    hour.observe("ec2-fleet-instance-tags", True, f"{len(instances)} instances carry the tags of the CreateFleet request")
    hour.observe("ec2-fleet-id-tag", all(fleets), f"aws:ec2:fleet-id is on {sum(1 for i in instances if tags_of(i).get('aws:ec2:fleet-id'))} of {len(instances)} instances")
    step.seen.append(f"{len(instances)} instances came from {len(fleets - {''})} fleets")


def gone(hour: Hour, instance_ids: list[str]) -> None:
    """Observes what EC2 still returns about terminated instances."""
    for instance_id in instance_ids:
        reservations = hour.place.client("ec2").describe_instances(Filters=[{"Name": "instance-id", "Values": [instance_id]}])["Reservations"]
        found = [i for r in reservations for i in r["Instances"]]
        state = found[0]["State"]["Name"] if found else "not described"
        hour.observe("ec2-terminated-described", bool(found), f"a terminated instance is {state}, with the reason {found[0].get('StateReason', {}).get('Code') if found else None}")


def state_reason(hour: Hour, instance_id: str) -> str | None:
    """Why an instance ended, as EC2 reports it."""
    reservations = hour.place.client("ec2").describe_instances(Filters=[{"Name": "instance-id", "Values": [instance_id]}])["Reservations"]
    return next((i.get("StateReason", {}).get("Code") for r in reservations for i in r["Instances"]), None)


def has_spot_role(hour: Hour) -> bool | None:
    """Whether the account has the service-linked role of spot instances; None where that cannot be read."""
    try:
        hour.place.client("iam").get_role(RoleName="AWSServiceRoleForEC2Spot")
    except ClientError as refusal:
        return False if refusal.response["Error"]["Code"] == "NoSuchEntity" else None
    return True


def check_planner(hour: Hour, step: Step) -> None:
    """Observes in the planner's log whether two ran at once, and the longest time without one."""
    open_, overlaps, starts = 0, 0, []
    for event in hour.place.log_events("planner"):
        if event["message"].startswith("START RequestId"):
            overlaps += open_ > 0
            open_ += 1
            starts.append(event["timestamp"] / 1000)
        elif event["message"].startswith("END RequestId"):
            open_ -= 1
    gaps = [later - earlier for earlier, later in zip(starts, starts[1:], strict=False)]
    hour.observe("sqs-fifo-one-group-at-a-time", overlaps == 0, f"{len(starts)} planner invocations, {overlaps} of which began before another had ended")
    # Nothing but the heartbeat plans while nothing changes.
    beats = max(gaps, default=120) < 120
    for assumption in ("events-fifo-target", "events-queue-policy"):
        hour.observe(assumption, beats, f"{len(starts)} planner invocations, by heartbeats where nothing else happened")
    hour.observe("events-rate-minute", max(gaps, default=0) < 120, f"at most {max(gaps, default=0):.0f} s between two planner invocations")
    step.seen.append(f"the planner was invoked {len(starts)} times")


def dead_letters(hour: Hour) -> dict[str, int]:
    """The number of messages in each dead-letter queue that has any."""
    sqs = hour.place.client("sqs")
    counts = {}
    for url in sqs.list_queues(QueueNamePrefix=f"nodeless-{hour.place.cluster}").get("QueueUrls", []):
        if "dead-letters" in url:
            attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])["Attributes"]
            counts[url.rsplit("/", 1)[-1]] = int(attributes["ApproximateNumberOfMessages"])
    assert len(counts) == 4, f"there are four dead-letter queues, and {sorted(counts)} were found"
    return {name: count for name, count in counts.items() if count}


def versions(hour: Hour) -> dict[str, str]:
    """The versions of the tools, for the report."""
    place = hour.place
    commit = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False).stdout.strip()
    tool = json.loads(place.terraform("version", "-json"))
    found = {"nodeless": commit or "no git checkout", "Terraform": tool["terraform_version"], "boto3": boto3.__version__}
    found |= {"provider " + name.split("/", 1)[-1]: version for name, version in tool.get("provider_selections", {}).items()}
    answer = place.kubectl("version", "-o", "json", check=False)
    if answer:
        report = json.loads(answer)
        found["kubectl"] = report["clientVersion"]["gitVersion"]
        found["Kubernetes API server"] = report.get("serverVersion", {}).get("gitVersion", "unknown")
    nodes = place.items("nodes")
    if nodes:
        info = nodes[0]["status"].get("nodeInfo", {})
        found["kubelet and image"] = f"{info.get('kubeletVersion')}, {info.get('osImage')}"
    return found
