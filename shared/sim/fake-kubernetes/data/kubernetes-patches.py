#!/usr/bin/env python3
"""Prints how kubectl merges the fields of Kubernetes' built-in types, one field a line: TYPE FIELD STRATEGY [KEY].

    kubernetes-patches.py DIRECTORY-OF-k8s.io/api DIRECTORY-OF-k8s.io/apimachinery > kubernetes-patches.txt

The directories are those of the Go modules (`go mod download -json k8s.io/api@v0.33.0 k8s.io/apimachinery@v0.33.0`).
"""

import pathlib
import re
import sys

GROUPS = ["core", "apps", "batch", "policy", "storage", "scheduling", "coordination", "rbac", "events", "discovery",
          "autoscaling", "networking", "node", "admissionregistration"]

api, machinery = map(pathlib.Path, sys.argv[1:])
files = [(f"io.k8s.api.{group}.{version}", api / group / version / "types.go") for group in GROUPS for version in ("v1", "v2")]
files.append(("io.k8s.apimachinery.pkg.apis.meta.v1", machinery / "pkg/apis/meta/v1/types.go"))
for package, file in files:
    if not file.exists():
        continue
    text = re.sub(r"//.*", "", file.read_text())
    for name, body in re.findall(r"^type (\w+) struct \{\n(.*?)^\}", text, re.M | re.S):
        for tags in re.findall(r"`([^`]*patchStrategy[^`]*)`", body):
            tag = dict(re.findall(r'(\w+):"([^"]*)"', tags))
            field = tag["json"].split(",")[0]
            print(" ".join(filter(None, [f"{package}.{name}", field, tag["patchStrategy"], tag.get("patchMergeKey")])))
