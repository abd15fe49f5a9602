"""Discovery, OpenAPI and health, as kubectl and client libraries request them."""

from __future__ import annotations

from .request import Request

AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


def served(name: str, path: str, accept: str = "application/json") -> Request:
    return Request(name, "GET", path, accept=accept, subset=True)


REQUESTS = [
    served("the paths", "/"),
    served("the version", "/version"),
    Request("healthy", "GET", "/healthz"),
    Request("ready", "GET", "/readyz"),
    Request("alive", "GET", "/livez"),
    served("the core versions", "/api"),
    served("the groups", "/apis"),
    served("aggregated discovery of the core", "/api", AGGREGATED),
    served("aggregated discovery of the groups", "/apis", AGGREGATED),
    served("a group", "/apis/apps"),
    served("a group of definitions", "/apis/karpenter.sh"),
    Request("a group that is missing", "GET", "/apis/missing.example.com"),
    served("the resources of the core", "/api/v1"),
    served("the resources of apps", "/apis/apps/v1"),
    served("the resources of policy", "/apis/policy/v1"),
    served("the resources of a definition", "/apis/karpenter.sh/v1"),
    Request("a version of a group that is missing", "GET", "/apis/apps/v2"),
    served("the documents of OpenAPI", "/openapi/v3"),
    served("the document of the core", "/openapi/v3/api/v1"),
    served("the document of apps", "/openapi/v3/apis/apps/v1"),
    served("the document of a definition", "/openapi/v3/apis/karpenter.sh/v1"),
    Request("a document that is missing", "GET", "/openapi/v3/apis/missing.example.com/v1"),
]
