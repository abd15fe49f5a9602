data "aws_partition" "current" {}

resource "aws_iam_role" "cluster" {
  name_prefix = "${substr(var.cluster_name, 0, 24)}-cluster-"
  tags        = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "eks.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy_attachment" "cluster" {
  role       = aws_iam_role.cluster.name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/AmazonEKSClusterPolicy"
}

# No node group and no Fargate profile. CoreDNS and the other add-ons stay pending until the first NodePool; then they get
# nodes like any other pod.
resource "aws_eks_cluster" "this" {
  #checkov:skip=CKV_AWS_37:an example to try; control plane logs would be its largest cost
  #checkov:skip=CKV_AWS_38:the functions call the endpoint from outside the VPC, and so does your kubectl; public_access_cidrs narrows it
  #checkov:skip=CKV_AWS_39:the functions call the endpoint from outside the VPC
  #checkov:skip=CKV_AWS_58:EKS encrypts all API data with a key of its own since Kubernetes 1.28
  name     = var.cluster_name
  version  = var.kubernetes_version
  role_arn = aws_iam_role.cluster.arn
  tags     = var.tags

  # Where standard support ends, EKS upgrades the control plane; extended support costs six times as much.
  upgrade_policy {
    support_type = "STANDARD"
  }

  access_config {
    authentication_mode = "API"
    # So that the person who applies this can apply NodePools, too.
    bootstrap_cluster_creator_admin_permissions = true
  }

  kubernetes_network_config {
    ip_family = var.ip_family
  }

  vpc_config {
    subnet_ids              = [for subnet in(var.nodes_in_private_subnets ? aws_subnet.private : aws_subnet.public) : subnet.id]
    endpoint_public_access  = true
    endpoint_private_access = true
    public_access_cidrs     = var.public_access_cidrs
  }

  # The routes, too: on destroy nodes are drained and terminated before the way out of their subnets goes.
  depends_on = [
    aws_iam_role_policy_attachment.cluster,
    aws_route.internet,
    aws_route.nat,
    aws_route.internet_ipv6,
    aws_route.egress_ipv6,
    aws_route_table_association.public,
    aws_route_table_association.private,
  ]
}

# EKS makes this group itself and puts nodes and control plane into it; the tag lets an EC2NodeClass find it.
resource "aws_ec2_tag" "cluster_security_group" {
  resource_id = aws_eks_cluster.this.vpc_config[0].cluster_security_group_id
  key         = "karpenter.sh/discovery"
  value       = var.cluster_name
}
