# Applied by test_many_clusters.py: two clusters that exist only as far as access entries need them, and the module for each; the second
# shares the functions of the first.

terraform {
  required_providers {
    aws = {
      source = "hashicorp/aws"
    }
  }
}

variable "artifacts_directory" {
  type = string
}

# The AWS endpoints of each cluster.
variable "endpoints" {
  type = object({ blue = map(string), green = map(string) })
}

resource "aws_iam_role" "cluster" {
  name = "cluster"
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Principal = { Service = "eks.amazonaws.com" }, Action = "sts:AssumeRole" }]
  })
}

# Each simulation has a node role with this name and no other.
resource "aws_iam_role" "node" {
  for_each = toset(["blue", "green"])

  name = "${each.key}-node"
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Principal = { Service = "ec2.amazonaws.com" }, Action = "sts:AssumeRole" }]
  })
}

resource "aws_eks_cluster" "this" {
  for_each = toset(["blue", "green"])

  name     = each.key
  role_arn = aws_iam_role.cluster.arn

  access_config {
    authentication_mode = "API"
  }

  vpc_config {
    subnet_ids = ["subnet-0a", "subnet-0b"]
  }
}

module "blue" {
  source = "../terraform"

  cluster_name        = aws_eks_cluster.this["blue"].name
  artifacts_directory = var.artifacts_directory
  architecture        = "x86_64"
  create_node_role    = false
  node_role_arn       = aws_iam_role.node["blue"].arn
  extra_environment   = var.endpoints.blue
  deletion_protection = false
  schedules           = { catalog = "rate(1 minute)" }
}

module "green" {
  source = "../terraform"

  cluster_name        = aws_eks_cluster.this["green"].name
  shared_functions    = module.blue.shared_functions
  artifacts_directory = var.artifacts_directory
  architecture        = "x86_64"
  create_node_role    = false
  node_role_arn       = aws_iam_role.node["green"].arn
  extra_environment   = var.endpoints.green
  schedules           = { catalog = "rate(1 minute)" }
}

locals {
  modules = { blue = module.blue, green = module.green }
}

output "clusters" {
  value = {
    for name, cluster in local.modules : name => {
      node_role        = cluster.node_role_name
      instance_profile = cluster.node_instance_profile_name
      functions        = cluster.function_names
      claims_queue     = cluster.claims_queue_url
      interruptions    = cluster.interruption_queue_url
      dead_letters     = cluster.dead_letter_queue_urls
    }
  }
}
