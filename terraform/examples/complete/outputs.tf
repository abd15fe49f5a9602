output "cluster_name" {
  description = "The cluster."
  value       = aws_eks_cluster.this.name
}

output "region" {
  description = "Its region."
  value       = var.region
}

output "node_pool" {
  description = "An EC2NodeClass and a NodePool for this cluster, ready to apply: terraform output -raw node_pool | kubectl apply -f -"
  value       = local.node_pool
}

output "doctor_command" {
  description = "Command that checks whether the cluster is ready."
  value       = module.nodeless.doctor_command
}

output "node_role_name" {
  description = "For spec.role of an EC2NodeClass."
  value       = module.nodeless.node_role_name
}

output "dashboard_name" {
  description = "The CloudWatch dashboard."
  value       = module.nodeless.dashboard_name
}

output "function_names" {
  description = "The functions."
  value       = module.nodeless.function_names
}

output "log_group_names" {
  description = "The log groups of the functions."
  value       = module.nodeless.log_group_names
}

output "plan_queue_url" {
  description = "The plan queue. A message of your own asks for a plan now."
  value       = module.nodeless.plan_queue_url
}
