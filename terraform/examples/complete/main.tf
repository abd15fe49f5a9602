module "nodeless" {
  source = "../.."

  cluster_name        = aws_eks_cluster.this.name
  artifacts_directory = coalesce(var.artifacts_directory, "${path.module}/../../../target/lambda")
  architecture        = var.architecture
  ip_family           = var.ip_family
  wake_enabled        = var.wake_enabled
  alarm_topic_arn     = var.alarm_topic_arn
  deletion_protection = var.deletion_protection

  # The VPC and the cluster go with it, so the nodes have to go before.
  remove_nodes_on_destroy = true
  tags                    = var.tags
}

locals {
  # The general-purpose NodePool of infra/nodepools, with the names of this cluster.
  node_pool_lines = [for line in split("\n", file("${path.module}/../../../infra/nodepools/default.yaml")) : line if !startswith(line, "#")]
  node_pool       = replace(replace(join("\n", local.node_pool_lines), "CLUSTER-node", module.nodeless.node_role_name), "CLUSTER", var.cluster_name)
}
