# What Lambda has in this partition and region. What AWS does not document for one is not used there, because a call that does not exist
# fails the apply half way.
locals {
  # All commercial regions but these: https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html
  without_loop_detection = ["ap-southeast-6", "mx-central-1"]
  # The same: https://docs.aws.amazon.com/lambda/latest/dg/urls-configuration.html
  without_function_urls = [
    "ap-east-2", "ap-south-2", "ap-southeast-4", "ap-southeast-5", "ap-southeast-6", "ap-southeast-7", "ca-west-1", "eu-central-2",
    "eu-south-2", "il-central-1", "me-central-1",
  ]

  is_commercial          = local.partition == "aws"
  recursive_loop_allowed = coalesce(var.recursive_loop_allowed, local.is_commercial && !contains(local.without_loop_detection, local.region))
  wake_enabled           = coalesce(var.wake_enabled, local.is_commercial && !contains(local.without_function_urls, local.region))

  # The ends of the names of services in kms:ViaService. AWS documents amazonaws.com, and for no partition whether its own suffix is used.
  via_suffixes = distinct(["amazonaws.com", data.aws_partition.current.dns_suffix])

  # GovCloud has no tags of event source mappings: https://docs.aws.amazon.com/govcloud-us/latest/UserGuide/govcloud-lambda.html
  mapping_tags = local.is_commercial ? local.tags : null
}
