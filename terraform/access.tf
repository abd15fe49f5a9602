locals {
  # Who speaks to the API server, and as which groups. infra/rbac binds them: `nodeless:controllers` reads what planning needs
  # and writes Events, each other group adds the writes of its function.
  groups = {
    planner      = ["nodeless:controllers", "nodeless:planner"]
    lifecycle    = ["nodeless:controllers", "nodeless:lifecycle"]
    catalog      = ["nodeless:controllers", "nodeless:catalog"]
    interruption = ["nodeless:controllers"]
  }
}

resource "aws_eks_access_entry" "node" {
  count = var.create_access_entries && var.create_node_access_entry ? 1 : 0

  cluster_name  = local.cluster
  principal_arn = local.node_role_arn
  type          = "EC2_LINUX"
  tags          = local.tags
}

# Windows nodes join as another group, eks:kube-proxy-windows, which this type brings.
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
  principal_arn     = aws_iam_role.function[each.key].arn
  kubernetes_groups = each.value
  type              = "STANDARD"
  tags              = local.tags
}

# The group's rights are those of infra/rbac/installer.yaml, which the installer makes when it first runs.
resource "aws_eks_access_entry" "installer" {
  count = var.create_access_entries && var.install ? 1 : 0

  cluster_name      = local.cluster
  principal_arn     = aws_iam_role.function["installer"].arn
  kubernetes_groups = ["nodeless:installer"]
  type              = "STANDARD"
  tags              = local.tags
}

# Cluster-admin, because Kubernetes lets a subject create only RBAC rules that it holds itself. Nothing but Terraform invokes this function. Once
# it has run, installer_cluster_admin = false takes this away.
resource "aws_eks_access_policy_association" "installer" {
  count = var.create_access_entries && var.install && var.installer_cluster_admin ? 1 : 0

  cluster_name  = local.cluster
  principal_arn = aws_eks_access_entry.installer[0].principal_arn
  policy_arn    = "arn:${local.partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"

  access_scope {
    type = "cluster"
  }
}

# A private endpoint answers from the cluster security group, which lets in nothing but itself.
resource "aws_vpc_security_group_ingress_rule" "functions" {
  for_each = try(var.vpc_config.cluster_security_group_id, null) == null ? {} : { for i, group in var.vpc_config.security_group_ids : tostring(i) => group }

  description                  = "nodeless functions reach the API server of ${local.cluster}"
  security_group_id            = var.vpc_config.cluster_security_group_id
  referenced_security_group_id = each.value
  ip_protocol                  = "tcp"
  from_port                    = 443
  to_port                      = 443
  tags                         = local.tags
}
