# Run by tests/terraform/run.py, which passes artifacts_directory.

mock_provider "aws" {
  mock_data "aws_eks_cluster" {
    defaults = { vpc_config = [{ endpoint_public_access = true, public_access_cidrs = ["0.0.0.0/0"] }] }
  }
  override_data {
    target = data.aws_availability_zones.available
    values = { names = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d"] }
  }
  override_data {
    target = data.aws_partition.current
    values = { partition = "aws" }
  }
  override_data {
    target = module.nodeless.data.aws_caller_identity.current
    values = { account_id = "111122223333" }
  }
  override_data {
    target = module.nodeless.data.aws_partition.current
    values = { partition = "aws" }
  }
  override_data {
    target = module.nodeless.data.aws_region.current
    values = { id = "eu-west-1", name = "eu-west-1" }
  }
}
run "private" {
  command = plan
  variables {
    nodes_in_private_subnets = true
  }
  assert {
    condition     = length(aws_nat_gateway.this) == 1 && length(aws_subnet.private) == 3 && !contains(keys(aws_subnet.public["us-east-1a"].tags), "karpenter.sh/discovery")
    error_message = "Nodes and NAT gateway must be placed according to nodes_in_private_subnets, and the discovery tag on the nodes' subnets alone."
  }
}
run "public" {
  command = plan
  variables {
    zones = 4
  }
  assert {
    condition     = length(aws_nat_gateway.this) == 0 && length(aws_subnet.private) == 0 && length(aws_subnet.public) == 4 && aws_subnet.public["us-east-1d"].tags["karpenter.sh/discovery"] == "nodeless"
    error_message = "Nodes and NAT gateway must be placed according to nodes_in_private_subnets, and the discovery tag on the nodes' subnets alone."
  }
}

run "ipv4" {
  command = plan
  assert {
    condition = (
      one(aws_eks_cluster.this.kubernetes_network_config).ip_family == "ipv4" && !aws_vpc.this.assign_generated_ipv6_cidr_block &&
      length(aws_route.internet_ipv6) == 0 && !anytrue([for s in aws_subnet.public : s.assign_ipv6_address_on_creation])
    )
    error_message = "A cluster with IPv4 has a network with IPv4 alone."
  }
}

run "ipv6" {
  command = plan
  variables {
    ip_family                = "ipv6"
    nodes_in_private_subnets = true
  }
  override_data {
    target = module.nodeless.data.aws_eks_cluster.this
    values = {
      vpc_config                = [{ endpoint_public_access = true, public_access_cidrs = ["0.0.0.0/0"] }]
      kubernetes_network_config = [{ ip_family = "ipv6" }]
    }
  }
  assert {
    condition = (
      one(aws_eks_cluster.this.kubernetes_network_config).ip_family == "ipv6" && aws_vpc.this.assign_generated_ipv6_cidr_block &&
      alltrue([for s in concat(values(aws_subnet.public), values(aws_subnet.private)) : s.assign_ipv6_address_on_creation]) &&
      alltrue([for r in concat(aws_route.internet_ipv6, aws_route.egress_ipv6) : r.destination_ipv6_cidr_block == "::/0"]) &&
      length(aws_route.internet_ipv6) == 1 && length(aws_route.egress_ipv6) == 1
    )
    error_message = "EKS accepts only subnets with IPv6 addresses for such a cluster, and pods need a way out."
  }
}

run "cluster_in_standard_support" {
  command = plan
  assert {
    condition     = aws_eks_cluster.this.upgrade_policy[0].support_type == "STANDARD" && var.kubernetes_version == null
    error_message = "The cluster has the version that EKS gives new clusters, and never costs extended support."
  }
}

run "zones_of_the_control_plane" {
  command = plan
  assert {
    condition = (
      toset(data.aws_availability_zones.available.exclude_zone_ids) == toset(["use1-az3", "usw1-az2", "cac1-az3"]) &&
      anytrue([for f in data.aws_availability_zones.available.filter : f.name == "opt-in-status" && toset(f.values) == toset(["opt-in-not-required"])])
    )
    error_message = "EKS refuses subnets in some zones, and Local Zones have no control plane."
  }
}

run "a_region_with_one_zone" {
  command = plan
  variables {
    region = "us-west-1"
  }
  override_data {
    target = data.aws_availability_zones.available
    values = { names = ["us-west-1b"] }
  }
  expect_failures = [aws_vpc.this]
}

run "china" {
  command = plan
  override_data {
    target = data.aws_partition.current
    values = { partition = "aws-cn" }
  }
  assert {
    condition     = aws_iam_role_policy_attachment.cluster.policy_arn == "arn:aws-cn:iam::aws:policy/AmazonEKSClusterPolicy"
    error_message = "The policy of the cluster's role is one of the partition."
  }
}
