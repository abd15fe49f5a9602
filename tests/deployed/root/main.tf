# Applied by test_end_to_end.py: a cluster that exists only as far as access entries need one, and the module.

terraform {
  required_providers {
    aws = {
      source = "hashicorp/aws"
    }
  }
}

variable "cluster_name" {
  type = string
}

variable "artifacts_directory" {
  type = string
}

variable "wake_enabled" {
  type = bool
}

variable "keep_snapshots" {
  type    = string
  default = ""
}

variable "zonal_shift_enabled" {
  type    = bool
  default = false
}

variable "vpc_config" {
  type    = object({ subnet_ids = list(string), security_group_ids = list(string) })
  default = null
}

variable "extra_environment" {
  type = map(string)
}

resource "aws_iam_role" "cluster" {
  name = "${var.cluster_name}-cluster"
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Principal = { Service = "eks.amazonaws.com" }, Action = "sts:AssumeRole" }]
  })
}

# The simulation has a node role with this name and no other.
resource "aws_iam_role" "node" {
  name = "${var.cluster_name}-node"
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Principal = { Service = "ec2.amazonaws.com" }, Action = "sts:AssumeRole" }]
  })
}

# For an EC2NodeClass whose instance profile the catalog makes.
resource "aws_iam_role" "other_node" {
  name               = "${var.cluster_name}-other-node"
  assume_role_policy = aws_iam_role.node.assume_role_policy
}

resource "aws_eks_cluster" "this" {
  name     = var.cluster_name
  role_arn = aws_iam_role.cluster.arn

  access_config {
    authentication_mode = "API"
  }

  vpc_config {
    subnet_ids = ["subnet-0a", "subnet-0b"]
  }
}

module "nodeless" {
  source = "../terraform"

  cluster_name        = aws_eks_cluster.this.name
  artifacts_directory = var.artifacts_directory
  architecture        = "x86_64"
  create_node_role    = false
  node_role_arn       = aws_iam_role.node.arn
  wake_enabled        = var.wake_enabled
  zonal_shift_enabled = var.zonal_shift_enabled
  vpc_config          = var.vpc_config
  extra_environment   = var.extra_environment
  keep_snapshots      = var.keep_snapshots
  deletion_protection = false
  log_level           = "info"

  additional_node_role_arns = [aws_iam_role.other_node.arn]

  # An EC2NodeClass that is applied now should be ready within a minute.
  schedules = { catalog = "rate(1 minute)" }
}

output "node_role_name" {
  value = module.nodeless.node_role_name
}

output "other_node_role_name" {
  value = aws_iam_role.other_node.name
}

output "node_instance_profile_name" {
  value = module.nodeless.node_instance_profile_name
}

output "function_names" {
  value = module.nodeless.function_names
}

output "dead_letter_queue_urls" {
  value = module.nodeless.dead_letter_queue_urls
}
