locals {
  # The access entries of the functions and their groups, which infra/rbac binds to one role for each function.
  groups = {
    planner      = ["nodeless:planner"]
    lifecycle    = ["nodeless:lifecycle"]
    catalog      = ["nodeless:catalog"]
    interruption = ["nodeless:interruption"]
  }
}

resource "aws_eks_access_entry" "node" {
  count = var.create_access_entries && var.create_node_access_entry ? 1 : 0

  cluster_name  = local.cluster
  principal_arn = local.node_role_arn
  type          = "EC2_LINUX"
  tags          = local.tags
}

# Windows nodes join with another group, eks:kube-proxy-windows, which this type adds.
resource "aws_eks_access_entry" "windows_node" {
  for_each = var.create_access_entries ? toset(var.windows_node_role_arns) : toset([])

  cluster_name  = local.cluster
  principal_arn = each.value
  type          = "EC2_WINDOWS"
  tags          = local.tags
}

resource "aws_eks_access_entry" "controller" {
  for_each = { for name, groups in local.groups : name => groups if var.create_access_entries }

  cluster_name      = local.cluster
  principal_arn     = local.serving[each.key].role_arn
  kubernetes_groups = each.value
  type              = "STANDARD"
  tags              = local.tags
}

# Without groups and access policies: the installer function makes itself cluster-admin while it works, because Kubernetes allows a
# subject to create only RBAC rules that it holds itself. The policy of its role limits it to this entry (iam.tf).
resource "aws_eks_access_entry" "installer" {
  count = var.create_access_entries && var.install ? 1 : 0

  cluster_name  = local.cluster
  principal_arn = aws_iam_role.function["installer"].arn
  type          = "STANDARD"
  tags          = local.tags
}

# A private endpoint uses the cluster security group, which only allows traffic from itself.
resource "aws_vpc_security_group_ingress_rule" "functions" {
  for_each = try(var.vpc_config.cluster_security_group_id, null) == null ? {} : { for i, group in distinct(concat(var.vpc_config.security_group_ids, local.shares_functions ? var.shared_functions.security_group_ids : [])) : tostring(i) => group }

  description                  = "nodeless functions reach the API server of ${local.cluster}"
  security_group_id            = var.vpc_config.cluster_security_group_id
  referenced_security_group_id = each.value
  ip_protocol                  = "tcp"
  from_port                    = 443
  to_port                      = 443
  tags                         = local.tags
}
