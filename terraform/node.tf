locals {
  node_role_arn  = var.create_node_role ? aws_iam_role.node[0].arn : var.node_role_arn
  node_role_name = var.create_node_role ? aws_iam_role.node[0].name : element(split("/", var.node_role_arn), length(split("/", var.node_role_arn)) - 1)
  node_role_arns = concat([local.node_role_arn], var.additional_node_role_arns, var.windows_node_role_arns)
}

resource "aws_iam_role" "node" {
  count = var.create_node_role ? 1 : 0

  name                 = "${local.iam_name}-node"
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  description          = "Nodes that nodeless launches for EKS cluster ${local.cluster}"
  tags                 = local.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = local.partition == "aws-cn" ? "ec2.amazonaws.com.cn" : "ec2.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = var.create_node_role ? toset(concat([
    "AmazonEKSWorkerNodePolicy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
  ], var.ip_family == "ipv4" ? ["AmazonEKS_CNI_Policy"] : [])) : toset([])

  role       = aws_iam_role.node[0].name
  policy_arn = "arn:${local.partition}:iam::aws:policy/${each.key}"
}

resource "aws_iam_role_policy_attachment" "additional" {
  for_each = var.create_node_role ? var.node_role_additional_policies : {}

  role       = aws_iam_role.node[0].name
  policy_arn = each.value
}

# What the VPC CNI needs in an IPv6 cluster. AWS has no managed policy with these permissions, and documents this one, with this name:
# https://docs.aws.amazon.com/eks/latest/userguide/cni-iam-role.html
resource "aws_iam_role_policy" "node" {
  count = var.create_node_role && var.ip_family == "ipv6" ? 1 : 0

  name = "AmazonEKS_CNI_IPv6_Policy"
  role = aws_iam_role.node[0].id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect   = "Allow"
        Action   = ["ec2:AssignIpv6Addresses", "ec2:DescribeInstances", "ec2:DescribeInstanceTypes", "ec2:DescribeNetworkInterfaces", "ec2:DescribeTags"]
        Resource = "*"
      },
      {
        Effect   = "Allow"
        Action   = "ec2:CreateTags"
        Resource = "arn:${local.partition}:ec2:*:*:network-interface/*"
      },
    ]
  })
}

resource "aws_iam_instance_profile" "node" {
  name = "${local.iam_name}-node"
  path = var.iam_path
  role = local.node_role_name
  tags = local.tags
}
