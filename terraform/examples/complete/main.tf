module "nodeless" {
  source = "../.."

  cluster_name        = aws_eks_cluster.this.name
  artifacts_directory = coalesce(var.artifacts_directory, "${path.module}/../../../target/lambda")
  architecture        = var.architecture
  wake_enabled        = var.wake_enabled
  alarm_topic_arn     = var.alarm_topic_arn
  deletion_protection = var.deletion_protection
  tags                = var.tags
}
