output "node_role_names" {
  description = "For spec.role of the EC2NodeClasses, by cluster."
  value       = { for name, cluster in local.clusters : name => cluster.node_role_name }
}

output "node_instance_profile_names" {
  description = "For spec.instanceProfile of the EC2NodeClasses, by cluster."
  value       = { for name, cluster in local.clusters : name => cluster.node_instance_profile_name }
}

output "function_names" {
  description = "The functions that serve each cluster, by cluster."
  value       = { for name, cluster in local.clusters : name => cluster.function_names }
}

output "plan_queue_urls" {
  description = "The plan queues, by cluster. A message of your own requests a plan."
  value       = { for name, cluster in local.clusters : name => cluster.plan_queue_url }
}

output "dead_letter_queue_urls" {
  description = "The dead-letter queues, by cluster."
  value       = { for name, cluster in local.clusters : name => cluster.dead_letter_queue_urls }
}
