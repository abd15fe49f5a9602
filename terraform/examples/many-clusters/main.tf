locals {
  artifacts_directory = coalesce(var.artifacts_directory, "${path.module}/../../../target/lambda")
}

# Creates planner, lifecycle, interruption and catalog, and everything for its own cluster.
module "nodeless" {
  source = "../.."

  cluster_name        = var.cluster_name
  artifacts_directory = local.artifacts_directory
  architecture        = var.architecture
  alarm_topic_arn     = var.alarm_topic_arn
  deletion_protection = var.deletion_protection
  tags                = var.tags
}

# Creates queues, rules, permissions, wake, installer and alarms for each further cluster. Every variable that is not about the
# shared functions can differ between clusters.
module "other" {
  source   = "../.."
  for_each = var.other_cluster_names

  cluster_name        = each.key
  shared_functions    = module.nodeless.shared_functions
  artifacts_directory = local.artifacts_directory
  architecture        = var.architecture
  alarm_topic_arn     = var.alarm_topic_arn
  tags                = var.tags
}

locals {
  clusters = merge({ (var.cluster_name) = module.nodeless }, module.other)
}
