variable "region" {
  description = "AWS region."
  type        = string
  default     = "us-east-1"
}

variable "cluster_name" {
  description = "Name of the cluster to make."
  type        = string
  default     = "nodeless"
}

variable "kubernetes_version" {
  description = "Kubernetes minor version of the control plane. null (default) takes the one that EKS gives to new clusters, which is in standard support."
  type        = string
  default     = null
}

variable "artifacts_directory" {
  description = "Where the zips of the functions are. null takes target/lambda of this checkout."
  type        = string
  default     = null
}

variable "architecture" {
  description = "Instruction set that the zips were built for: arm64 or x86_64."
  type        = string
  default     = "arm64"
}

variable "vpc_cidr" {
  description = "Addresses of the VPC. Each zone gets a public and a private slice."
  type        = string
  default     = "10.0.0.0/16"

  validation {
    condition     = can(cidrsubnet(var.vpc_cidr, 4, 15))
    error_message = "vpc_cidr must be an IPv4 CIDR block of at most /24, such as 10.0.0.0/16."
  }
}

variable "ip_family" {
  description = "Addresses of pods and services: ipv4 (default) or ipv6. The VPC of ipv6 has both kinds: nodes reach AWS services without IPv6 by IPv4."
  type        = string
  default     = "ipv4"

  validation {
    condition     = contains(["ipv4", "ipv6"], var.ip_family)
    error_message = "ip_family is ipv4 or ipv6."
  }
}

variable "zones" {
  description = "How many availability zones to use."
  type        = number
  default     = 3

  validation {
    condition     = var.zones >= 2 && var.zones <= 6
    error_message = "zones must be 2 to 6: EKS wants at least two."
  }
}

variable "nodes_in_private_subnets" {
  description = "true puts nodes into private subnets behind one NAT gateway (about 33 dollars a month and 4.5 cents a gigabyte). false (default) puts them into public subnets with public addresses and security groups that let nothing in from outside: the cheapest that works."
  type        = bool
  default     = false
}

variable "public_access_cidrs" {
  description = "Who may reach the API endpoint. The functions run outside the VPC and must be able to, so narrowing this calls for vpc_config on the module and a private endpoint."
  type        = list(string)
  default     = ["0.0.0.0/0"]
}

variable "wake_enabled" {
  description = "Plan as soon as a pod cannot be scheduled, through a webhook and a Function URL. false waits for the heartbeat; null (default) does so where the region has no Function URLs."
  type        = bool
  default     = null
}

variable "alarm_topic_arn" {
  description = "SNS topic for alarms."
  type        = string
  default     = null
}

variable "deletion_protection" {
  description = "Protect the state table from deletion."
  type        = bool
  default     = false
}

variable "tags" {
  description = "Tags for everything."
  type        = map(string)
  default     = {}
}
