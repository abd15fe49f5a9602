output "kubeconfig_command" {
  description = "Command that points kubectl at the cluster."
  value       = "aws eks update-kubeconfig --region ${var.region} --name ${aws_eks_cluster.this.name}"
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
