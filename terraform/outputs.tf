output "node_role_name" {
  description = "Name of the node role, for spec.role of an EC2NodeClass."
  value       = local.node_role_name
}

output "node_role_arn" {
  description = "ARN of the node role."
  value       = local.node_role_arn
}

output "node_instance_profile_name" {
  description = "Instance profile of the node role, for spec.instanceProfile of an EC2NodeClass."
  value       = aws_iam_instance_profile.node.name
}

output "doctor_command" {
  description = "Command that checks whether the cluster is ready, with the kubeconfig of the cluster; see docs/doctor.md."
  value       = "nodeless doctor --cluster-name ${local.cluster}"
}

output "function_names" {
  description = "Names of the Lambda functions that serve the cluster."
  value       = merge({ for name, f in aws_lambda_function.function : name => f.function_name }, { for name, f in local.serving : name => f.name })
}

output "function_arns" {
  description = "ARNs of the Lambda functions that serve the cluster."
  value       = merge({ for name, f in aws_lambda_function.function : name => f.arn }, { for name, f in local.serving : name => f.arn })
}

output "shared_functions" {
  description = "For the variable shared_functions of further instances of this module: the functions then serve their clusters too."
  value = local.shares_functions ? var.shared_functions : {
    cluster            = local.cluster
    account            = local.account
    region             = local.region
    in_vpc             = var.vpc_config != null
    security_group_ids = try(var.vpc_config.security_group_ids, [])
    table              = local.table
    functions          = local.serving
  }
}

output "function_role_arns" {
  description = "Roles of the functions, by function: for additional policies (KMS keys, ssmParameter terms), and for access entries if the module creates none."
  value       = merge({ for name, role in aws_iam_role.function : name => role.arn }, { for name, f in local.serving : name => f.role_arn })
}

output "log_group_names" {
  description = "Log groups of the functions."
  value       = local.all_log_groups
}

output "table_name" {
  description = "Name of the state table."
  value       = local.table.name
}

output "table_arn" {
  description = "ARN of the state table."
  value       = local.table.arn
}

output "queue_arns" {
  description = "ARNs of the queues."
  value = {
    plan         = aws_sqs_queue.plan.arn
    claims       = aws_sqs_queue.claims.arn
    interruption = aws_sqs_queue.interruption.arn
    catalog      = aws_sqs_queue.catalog.arn
  }
}

output "plan_queue_url" {
  description = "URL of the plan queue. Send a message to request a plan."
  value       = aws_sqs_queue.plan.url
}

output "claims_queue_url" {
  description = "URL of the claims queue."
  value       = aws_sqs_queue.claims.url
}

output "catalog_queue_url" {
  description = "URL of the catalog queue. Send a message to request a refresh."
  value       = aws_sqs_queue.catalog.url
}

output "interruption_queue_url" {
  description = "URL of the interruption queue, for fault injection."
  value       = aws_sqs_queue.interruption.url
}

output "dead_letter_queue_urls" {
  description = "URLs of the dead-letter queues, by their source queue."
  value = {
    plan         = aws_sqs_queue.plan_dead_letters.url
    claims       = aws_sqs_queue.claims_dead_letters.url
    interruption = aws_sqs_queue.interruption_dead_letters.url
    catalog      = aws_sqs_queue.catalog_dead_letters.url
  }
}

output "wake_url" {
  description = "URL that the wake webhook calls, with its secret path; empty if wake is disabled."
  value       = local.wake_url
  sensitive   = true
}

output "dashboard_name" {
  description = "Name of the CloudWatch dashboard; null if dashboard = false."
  value       = one(aws_cloudwatch_dashboard.nodeless[*].dashboard_name)
}

output "metric_names" {
  description = "Every metric in the namespace nodeless."
  value       = local.metric_names
}
