variable "region" {
  description = "AWS region of all clusters."
  type        = string
  default     = "us-east-1"
}

variable "cluster_name" {
  description = "Name of an existing cluster. Its module creates the functions, which also serve the other clusters."
  type        = string
}

variable "other_cluster_names" {
  description = "Names of further existing clusters of the same account and region, with the same administrators."
  type        = set(string)

  validation {
    condition     = !contains(var.other_cluster_names, var.cluster_name)
    error_message = "other_cluster_names must not contain cluster_name."
  }
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

variable "alarm_topic_arn" {
  description = "SNS topic for alarms."
  type        = string
  default     = null
}

variable "deletion_protection" {
  description = "Protect the state table, which all clusters share, from deletion."
  type        = bool
  default     = true
}

variable "tags" {
  description = "Tags for everything."
  type        = map(string)
  default     = {}
}
