"""A Kubernetes control plane for tests: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, and kwok for nodes and pods."""

from __future__ import annotations

import base64
import http.client
import json
import subprocess
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..processes import Process, free_port, wait_for
from .audit import Audit
from .binaries import Binaries
from .certificates import Authority, Pair
from .client import Client
from .tokens import Authenticator

ADMIN = "tests"
# The API paths of the kinds that tests read.
PATHS = {
    **dict.fromkeys(("nodes", "pods", "events", "persistentvolumes", "persistentvolumeclaims", "namespaces"), "/api/v1"),
    **dict.fromkeys(("deployments", "daemonsets", "statefulsets", "replicasets"), "/apis/apps/v1"),
    **dict.fromkeys(("nodepools", "nodeclaims"), "/apis/karpenter.sh/v1"),
    "nodeoverlays": "/apis/karpenter.sh/v1alpha1",
    "ec2nodeclasses": "/apis/karpenter.k8s.aws/v1",
    "capacitybuffers": "/apis/autoscaling.x-k8s.io/v1beta1",
    "provisioningrequests": "/apis/autoscaling.x-k8s.io/v1",
    "jobs": "/apis/batch/v1",
    "workloads": "/apis/kueue.x-k8s.io/v1beta2",
    "poddisruptionbudgets": "/apis/policy/v1",
    "volumeattachments": "/apis/storage.k8s.io/v1",
    "customresourcedefinitions": "/apis/apiextensions.k8s.io/v1",
    "validatingwebhookconfigurations": "/apis/admissionregistration.k8s.io/v1",
    **dict.fromkeys(("clusterroles", "clusterrolebindings"), "/apis/rbac.authorization.k8s.io/v1"),
}
NAMESPACED = ("pods", "events", "persistentvolumeclaims", "deployments", "daemonsets", "statefulsets", "replicasets", "poddisruptionbudgets", "capacitybuffers", "provisioningrequests", "jobs", "workloads")
# Every call, without its content.
AUDIT_POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}], "omitStages": ["RequestReceived"]}


def path_of(item: dict[str, Any]) -> str:
    """The API path of the kind of an object, in its namespace."""
    group = "/api/v1" if item["apiVersion"] == "v1" else f"/apis/{item['apiVersion']}"
    namespace = item["metadata"].get("namespace")
    return f"{group}{f'/namespaces/{namespace}' if namespace else ''}/{item['kind'].lower()}s"


class Unanswered(AssertionError):
    """The API server did not respond, which must not look like a deleted object."""


class ControlPlane:
    """A running control plane. Use as a context manager; all its processes end with it."""

    def __init__(self, binaries: Binaries, directory: Path, logs: Path, authenticator: Authenticator, nodes: bool = True) -> None:
        """`nodes`: whether kwok keeps Nodes ready and runs Pods."""
        self.binaries, self.directory, self.logs, self.authenticator = binaries, directory, logs, authenticator
        self._nodes = nodes
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.authority = Authority(directory / "pki")
        self.kubeconfig = self.user_kubeconfig(ADMIN, "tests", ("system:masters",))
        administrator = self.authority.client("client", "tests", ("system:masters",))
        self.client = Client(self.port, self.authority.pair, administrator)
        self.audit = Audit(logs / "audit.jsonl")
        self._stack = ExitStack()
        self._server: Process | None = None
        # Additional flags of kube-apiserver.
        self.server_flags: dict[str, str] = {}

    def __enter__(self) -> ControlPlane:
        with ExitStack() as started:
            self._start_etcd(started)
            self.start_server()
            started.callback(self.stop_server)
            self._start(started, "kube-controller-manager", self._controller_manager())
            self._start(started, "kube-scheduler", self._scheduler())
            if self._nodes:
                self._start(started, "kwok", self._kwok())
            wait_for("the default service account", self._has_service_account, 60)
            self._stack = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # The API server alone can be restarted.

    def start_server(self) -> None:
        self._server = Process("kube-apiserver", flags(self.binaries.programs["kube-apiserver"], self._apiserver()), self.logs)
        self._server.__enter__()
        wait_for("kube-apiserver to be ready", self._is_ready, 120)

    def stop_server(self) -> None:
        if self._server is not None:
            self._server.__exit__()
            self._server = None

    def restart_server(self) -> None:
        self.stop_server()
        self.start_server()

    def compact(self) -> None:
        """Removes all earlier revisions from etcd, as kube-apiserver does every five minutes."""
        revision = self._etcd_call("maintenance/status", {})["header"]["revision"]
        self._etcd_call("kv/compaction", {"revision": revision, "physical": True})
        # Another kube-apiserver would write this key. From it, this one learns that its snapshots are too old, within 15 seconds.
        key, value = (base64.b64encode(text.encode()).decode() for text in ("compact_rev_key", str(revision)))
        self._etcd_call("kv/put", {"key": key, "value": value})

    # kubectl

    def kubectl_command(self, *arguments: str) -> list[str]:
        return ["kubectl", f"--kubeconfig={self.kubeconfig}", *arguments]

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Runs kubectl and returns its output; empty if it fails and `check` is false."""
        done = self.try_kubectl(*arguments, stdin=stdin)
        if done.returncode != 0:
            if check:
                raise AssertionError(f"kubectl {' '.join(arguments)} failed:\n{done.stderr}")
            return ""
        return done.stdout

    def try_kubectl(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Runs kubectl, whether it succeeds or not."""
        return subprocess.run(self.kubectl_command(*arguments), input=stdin, text=True, capture_output=True, check=False)

    def apply(self, *objects: dict[str, Any]) -> None:
        """Applies objects, server-side."""
        for item in objects:
            self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(item))

    def create(self, item: dict[str, Any]) -> dict[str, Any]:
        """Creates an object with one call, and returns it. kubectl takes a third of a second for each."""
        answer = self.client.call("POST", path_of(item), item)
        assert answer.status == 201, answer.body
        return answer.body

    def items(self, resource: str, selector: str = "") -> list[dict[str, Any]]:
        """Objects of a kind, in all namespaces; none while the kind is not served."""
        query = f"?labelSelector={quote(selector)}" if selector else ""
        found = self._found(f"{PATHS[resource]}/{resource}{query}")
        return found.get("items", [])

    def get(self, resource: str, name: str) -> dict[str, Any]:
        """An object of a cluster-scoped kind, or in the namespace `default`; empty if it does not exist."""
        namespace = "/namespaces/default" if resource in NAMESPACED else ""
        return self._found(f"{PATHS[resource]}{namespace}/{resource}/{name}")

    def _found(self, path: str) -> dict[str, Any]:
        """The object at a path; empty if it does not exist. Raises Unanswered while the API server does not respond."""
        try:
            answer = self.client.call("GET", path)
        except (OSError, http.client.HTTPException) as problem:
            raise Unanswered(f"GET {path}: {problem}") from problem
        if answer.status not in (200, 404):
            raise Unanswered(f"GET {path}: {answer.status} {answer.body}")
        return answer.body if answer.status == 200 else {}

    # How each program is started

    def _start_etcd(self, started: ExitStack) -> None:
        client, peer = free_port(), free_port()
        self.etcd_url = f"http://127.0.0.1:{client}"
        etcd = {
            "data-dir": self.directory / "etcd",
            "listen-client-urls": self.etcd_url,
            "advertise-client-urls": self.etcd_url,
            "listen-peer-urls": f"http://127.0.0.1:{peer}",
            "initial-advertise-peer-urls": f"http://127.0.0.1:{peer}",
            "initial-cluster": f"default=http://127.0.0.1:{peer}",
            # The data exists as long as the test.
            "unsafe-no-fsync": "true",
        }
        process = started.enter_context(Process("etcd", flags(self.binaries.programs["etcd"], etcd), self.logs))
        process.wait_until_answers(f"{self.etcd_url}/health")

    def _apiserver(self) -> dict[str, object]:
        if not hasattr(self, "_server_pair"):
            self._server_pair = self.authority.server("kube-apiserver")
            self._service_account_key = self.authority.signing_key("service-accounts")
        policy, webhook = self.directory / "audit-policy.json", self.directory / "authenticator.json"
        policy.write_text(json.dumps(AUDIT_POLICY))
        webhook.write_text(self.authenticator.kubeconfig())
        return {
            "etcd-servers": self.etcd_url,
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            # There is no Service network, so its endpoints cannot be reached.
            "endpoint-reconciler-type": "none",
            "secure-port": self.port,
            "tls-cert-file": self._server_pair.certificate,
            "tls-private-key-file": self._server_pair.key,
            "client-ca-file": self.authority.pair.certificate,
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": self._service_account_key,
            "service-account-signing-key-file": self._service_account_key,
            "service-cluster-ip-range": "10.0.0.0/24",
            "allow-privileged": "true",
            # EKS authorizes in this way: https://docs.aws.amazon.com/eks/latest/userguide/cluster-auth.html
            "authorization-mode": "Node,RBAC",
            "authentication-token-webhook-config-file": webhook,
            "authentication-token-webhook-version": "v1",
            # A token is authenticated again after this time.
            "authentication-token-webhook-cache-ttl": "5s",
            "audit-policy-file": policy,
            "audit-log-path": self.audit.path,
        } | self.server_flags

    def _controller_manager(self) -> dict[str, object]:
        config = self.user_kubeconfig("kube-controller-manager", "system:kube-controller-manager")
        return {
            "kubeconfig": config,
            "authentication-kubeconfig": config,
            "authorization-kubeconfig": config,
            "service-account-private-key-file": self._service_account_key,
            "root-ca-file": self.authority.pair.certificate,
            "use-service-account-credentials": "true",
            "leader-elect": "false",
            "bind-address": "127.0.0.1",
            "secure-port": free_port(),
            "cert-dir": self.directory / "controller-manager",
        }

    def _scheduler(self) -> dict[str, object]:
        config = self.user_kubeconfig("kube-scheduler", "system:kube-scheduler")
        return {
            "kubeconfig": config,
            "authentication-kubeconfig": config,
            "authorization-kubeconfig": config,
            "leader-elect": "false",
            "bind-address": "127.0.0.1",
            "secure-port": free_port(),
            "cert-dir": self.directory / "scheduler",
        }

    def _kwok(self) -> dict[str, object]:
        return {
            "kubeconfig": self.user_kubeconfig("kwok", "kwok", ("system:masters",)),
            "manage-all-nodes": "true",
            "node-lease-duration-seconds": 40,
            "cidr": "10.244.0.0/16",
        }

    def _start(self, started: ExitStack, name: str, values: dict[str, object]) -> None:
        started.enter_context(Process(name, flags(self.binaries.programs[name], values), self.logs))

    def user_kubeconfig(self, name: str, user: str, groups: tuple[str, ...] = ()) -> Path:
        """A kubeconfig with a certificate of this user and these groups, in the directory of the control plane."""
        path = self.directory / f"{name}.kubeconfig"
        path.write_text(json.dumps(kubeconfig(self.url, self.authority.pair, self.authority.client(name, user, groups))))
        path.chmod(0o600)
        return path

    def _is_ready(self) -> bool:
        ended = self._server.ended() if self._server else -1
        if ended is not None:
            raise AssertionError(f"kube-apiserver ended with {ended}; its log:\n{self._server.tail() if self._server else ''}")
        return self.kubectl("get", "--raw", "/readyz", check=False) == "ok"

    def _has_service_account(self) -> bool:
        return bool(self.kubectl("get", "serviceaccount", "default", "-o", "name", check=False))

    def _etcd_call(self, path: str, body: dict[str, object]) -> dict[str, Any]:
        request = urllib.request.Request(f"{self.etcd_url}/v3/{path}", data=json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)


def flags(program: Path, values: dict[str, object]) -> list[str | Path]:
    return [program, *(f"--{name}={value}" for name, value in values.items())]


def kubeconfig(url: str, authority: Pair, client: Pair) -> dict[str, object]:
    cluster = {"server": url, "certificate-authority-data": authority.certificate_data()}
    user = {"client-certificate": str(client.certificate), "client-key": str(client.key)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tests", "cluster": cluster}],
        "users": [{"name": "tests", "user": user}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
        "current-context": "tests",
    }
