#!/usr/bin/env python3
"""Prints the field numbers of Kubernetes' protobuf messages, one message a line, for the protobuf decoder.

    kubernetes-messages.py DIRECTORY-OF-k8s.io/api DIRECTORY-OF-k8s.io/apimachinery > kubernetes-messages.txt

The directories are those of the Go modules (`go mod download -json k8s.io/api@v0.36.0 k8s.io/apimachinery@v0.36.0`).
"""

import pathlib
import re
import sys

GROUPS = [
    "core/v1", "apps/v1", "batch/v1", "policy/v1", "storage/v1", "scheduling/v1", "scheduling/v1alpha2", "coordination/v1", "rbac/v1",
    "events/v1", "discovery/v1", "autoscaling/v1", "autoscaling/v2", "networking/v1", "node/v1", "resource/v1", "admissionregistration/v1", "authorization/v1",
    "authentication/v1",
]
MACHINERY = ["pkg/apis/meta/v1", "pkg/runtime", "pkg/api/resource", "pkg/util/intstr"]
SCALARS = {"string", "bytes", "bool", "int32", "int64", "uint32", "uint64", "double", "float"}

api, machinery = map(pathlib.Path, sys.argv[1:])
files = [api / group / "generated.proto" for group in GROUPS]
files += [machinery / folder / "generated.proto" for folder in MACHINERY]
for file in files:
    text = re.sub(r"//.*", "", file.read_text())
    package = re.search(r"^package ([\w.]+);", text, re.M).group(1)

    def qualify(kind):
        if kind in SCALARS:
            return kind
        full = kind.lstrip(".") if "." in kind else f"{package}.{kind}"
        return full.replace("k8s.io.", "").replace("apimachinery.pkg.", "")

    for message in re.finditer(r"^message (\w+) \{(.*?)^\}", text, re.M | re.S):
        fields = []
        pattern = r"^\s*(optional|repeated|map<string,\s*([\w.]+)>)\s+(?:([\w.]+)\s+)?(\w+) = (\d+)"
        for label, mapped, kind, name, number in re.findall(pattern, message.group(2), re.M):
            prefix = {"optional": "", "repeated": "*"}.get(label, "%")
            # One field is capitalised in the messages and not in JSON.
            name = name.replace("Webhooks", "webhooks")
            fields.append(f"{number}:{name}:{prefix}{qualify(mapped or kind)}")
        print(" ".join([qualify(message.group(1)), *fields]))
