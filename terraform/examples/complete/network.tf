data "aws_availability_zones" "available" {
  state = "available"

  # Zones in which EKS puts no control plane, so that a cluster with a subnet there is refused:
  # https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
  exclude_zone_ids = ["use1-az3", "usw1-az2", "cac1-az3"]

  # Local Zones have neither EKS control planes nor most instance types.
  filter {
    name   = "opt-in-status"
    values = ["opt-in-not-required"]
  }
}

locals {
  zones = slice(data.aws_availability_zones.available.names, 0, min(var.zones, length(data.aws_availability_zones.available.names)))

  ipv6 = var.ip_family == "ipv6"

  # The tag by which EC2NodeClasses select subnets and security groups, also in Karpenter's guides.
  discovery = { "karpenter.sh/discovery" = var.cluster_name }
}

resource "aws_vpc" "this" {
  #checkov:skip=CKV2_AWS_11:an example to try; flow logs would be its largest cost
  cidr_block                       = var.vpc_cidr
  assign_generated_ipv6_cidr_block = local.ipv6
  enable_dns_support               = true
  enable_dns_hostnames             = true
  tags                             = merge(var.tags, { Name = var.cluster_name })

  # An account may have two zones of us-west-1, of which EKS refuses one.
  lifecycle {
    precondition {
      condition     = length(local.zones) >= 2
      error_message = "EKS needs subnets in two zones, and this account has ${length(local.zones)} in ${var.region} that EKS accepts (${join(", ", local.zones)}). Set the variable region to another one."
    }
  }
}

# The default group is not used; without rules it also allows nothing by mistake.
resource "aws_default_security_group" "this" {
  vpc_id = aws_vpc.this.id
}

resource "aws_internet_gateway" "this" {
  vpc_id = aws_vpc.this.id
  tags   = merge(var.tags, { Name = var.cluster_name })
}

resource "aws_subnet" "public" {
  #checkov:skip=CKV_AWS_130:nodes need a way out, and a NAT gateway costs more than the rest; nodes_in_private_subnets turns this around
  for_each = { for i, zone in local.zones : zone => i }

  vpc_id                          = aws_vpc.this.id
  availability_zone               = each.key
  cidr_block                      = cidrsubnet(var.vpc_cidr, 4, each.value)
  ipv6_cidr_block                 = local.ipv6 ? cidrsubnet(aws_vpc.this.ipv6_cidr_block, 8, each.value) : null
  assign_ipv6_address_on_creation = local.ipv6
  map_public_ip_on_launch         = true
  tags = merge(var.tags, var.nodes_in_private_subnets ? {} : local.discovery, {
    Name                     = "${var.cluster_name}-public-${each.key}"
    "kubernetes.io/role/elb" = "1"
  })
}

resource "aws_route_table" "public" {
  vpc_id = aws_vpc.this.id
  tags   = merge(var.tags, { Name = "${var.cluster_name}-public" })
}

resource "aws_route" "internet" {
  route_table_id         = aws_route_table.public.id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.this.id
}

resource "aws_route" "internet_ipv6" {
  count = local.ipv6 ? 1 : 0

  route_table_id              = aws_route_table.public.id
  destination_ipv6_cidr_block = "::/0"
  gateway_id                  = aws_internet_gateway.this.id
}

resource "aws_route_table_association" "public" {
  for_each = aws_subnet.public

  subnet_id      = each.value.id
  route_table_id = aws_route_table.public.id
}

resource "aws_subnet" "private" {
  for_each = var.nodes_in_private_subnets ? { for i, zone in local.zones : zone => i } : {}

  vpc_id                          = aws_vpc.this.id
  availability_zone               = each.key
  cidr_block                      = cidrsubnet(var.vpc_cidr, 4, 8 + each.value)
  ipv6_cidr_block                 = local.ipv6 ? cidrsubnet(aws_vpc.this.ipv6_cidr_block, 8, 8 + each.value) : null
  assign_ipv6_address_on_creation = local.ipv6
  tags = merge(var.tags, local.discovery, {
    Name                              = "${var.cluster_name}-private-${each.key}"
    "kubernetes.io/role/internal-elb" = "1"
  })
}

resource "aws_eip" "nat" {
  count = var.nodes_in_private_subnets ? 1 : 0

  domain = "vpc"
  tags   = merge(var.tags, { Name = "${var.cluster_name}-nat" })
}

resource "aws_nat_gateway" "this" {
  count = var.nodes_in_private_subnets ? 1 : 0

  allocation_id = aws_eip.nat[0].id
  subnet_id     = aws_subnet.public[local.zones[0]].id
  tags          = merge(var.tags, { Name = var.cluster_name })
  depends_on    = [aws_internet_gateway.this]
}

resource "aws_route_table" "private" {
  count = var.nodes_in_private_subnets ? 1 : 0

  vpc_id = aws_vpc.this.id
  tags   = merge(var.tags, { Name = "${var.cluster_name}-private" })
}

resource "aws_route" "nat" {
  count = var.nodes_in_private_subnets ? 1 : 0

  route_table_id         = aws_route_table.private[0].id
  destination_cidr_block = "0.0.0.0/0"
  nat_gateway_id         = aws_nat_gateway.this[0].id
}

# The way out for IPv6, which needs no NAT gateway.
resource "aws_egress_only_internet_gateway" "this" {
  count = local.ipv6 && var.nodes_in_private_subnets ? 1 : 0

  vpc_id = aws_vpc.this.id
  tags   = merge(var.tags, { Name = var.cluster_name })
}

resource "aws_route" "egress_ipv6" {
  count = local.ipv6 && var.nodes_in_private_subnets ? 1 : 0

  route_table_id              = aws_route_table.private[0].id
  destination_ipv6_cidr_block = "::/0"
  egress_only_gateway_id      = aws_egress_only_internet_gateway.this[0].id
}

resource "aws_route_table_association" "private" {
  for_each = aws_subnet.private

  subnet_id      = each.value.id
  route_table_id = aws_route_table.private[0].id
}
