resource "aws_cloudwatch_log_group" "function" {
  #checkov:skip=CKV_AWS_158:encrypted with the key of CloudWatch Logs unless kms_key_arns.logs is set; logs hold no secret
  #checkov:skip=CKV_AWS_338:retention is a variable; decisions older than a month are of little use
  for_each = local.functions

  name              = "/aws/lambda/${local.name}-${each.key}"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arns.logs
  tags              = local.tags
}

resource "aws_lambda_function" "function" {
  #checkov:skip=CKV_AWS_50:tracing every minute's heartbeat costs more than running it
  #checkov:skip=CKV_AWS_116:nothing invokes a function asynchronously; the queues have dead-letter queues, and Terraform, the API server and people wait for the answer
  #checkov:skip=CKV_AWS_173:encrypted with the key of Lambda unless kms_key_arns.environment is set; the only secret is wake's path, which everyone who can read the function's configuration could also read from its URL's webhook
  #checkov:skip=CKV_AWS_272:the zips are built by the user who applies this, who would also own the signing profile
  for_each = local.functions

  function_name    = "${local.name}-${each.key}"
  description      = "nodeless ${each.key} for EKS cluster ${local.cluster}"
  role             = aws_iam_role.function[each.key].arn
  filename         = var.artifacts_s3 == null ? "${var.artifacts_directory}/${each.key}/bootstrap.zip" : null
  s3_bucket        = var.artifacts_s3 == null ? null : var.artifacts_s3.bucket
  s3_key           = var.artifacts_s3 == null ? null : "${var.artifacts_s3.prefix}${each.key}/bootstrap.zip"
  source_code_hash = local.artifact_hashes[each.key]
  runtime          = "provided.al2023"
  handler          = "bootstrap"
  architectures    = [var.architecture]
  memory_size      = each.value.memory
  timeout          = each.value.timeout

  reserved_concurrent_executions = each.value.reserved_concurrency

  kms_key_arn = var.kms_key_arns.environment

  environment {
    variables = merge(var.extra_environment, local.common_environment, local.environment[each.key])
  }

  dynamic "vpc_config" {
    for_each = var.vpc_config == null || each.key == "wake" ? [] : [var.vpc_config]
    content {
      subnet_ids         = vpc_config.value.subnet_ids
      security_group_ids = vpc_config.value.security_group_ids
    }
  }

  tags = local.tags

  # A function that logs before its group exists creates one without retention, and a function that starts before its policy
  # exists fails. Without the last one Lambda can neither create nor, on destroy, delete the network interfaces in the VPC.
  depends_on = [aws_cloudwatch_log_group.function, aws_iam_role_policy.function, aws_iam_role_policy_attachment.vpc]
}

# These functions wake each other, and lifecycle itself, by messages. Lambda detects such a loop and stops it after about 16
# invocations: https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html
resource "aws_lambda_function_recursion_config" "function" {
  for_each = local.recursive_loop_allowed ? local.looping : toset([])

  function_name  = aws_lambda_function.function[each.key].function_name
  recursive_loop = "Allow"
}

resource "aws_lambda_event_source_mapping" "plan" {
  event_source_arn = aws_sqs_queue.plan.arn
  function_name    = local.serving["planner"].arn
  # One plan handles all wake-ups that arrived during the previous plan. A FIFO queue supports batches of ten at most, and no
  # batching window.
  batch_size              = 10
  function_response_types = ["ReportBatchItemFailures"]
  tags                    = local.mapping_tags

  # Shared functions need the permissions and the registration of this cluster first.
  depends_on = [aws_iam_role_policy_attachment.shared, aws_dynamodb_table_item.cluster]
}

resource "aws_lambda_event_source_mapping" "catalog" {
  event_source_arn = aws_sqs_queue.catalog.arn
  function_name    = local.serving["catalog"].arn
  # One refresh handles all waiting messages.
  batch_size              = 10
  function_response_types = ["ReportBatchItemFailures"]
  tags                    = local.mapping_tags
  depends_on              = [aws_iam_role_policy_attachment.shared, aws_dynamodb_table_item.cluster]
}

resource "aws_lambda_event_source_mapping" "claims" {
  event_source_arn        = aws_sqs_queue.claims.arn
  function_name           = local.serving["lifecycle"].arn
  batch_size              = 10
  function_response_types = ["ReportBatchItemFailures"]
  tags                    = local.mapping_tags

  scaling_config {
    maximum_concurrency = var.claims_concurrency
  }

  # So that launches end first on destroy.
  depends_on = [aws_lambda_invocation.leave, aws_iam_role_policy_attachment.shared, aws_dynamodb_table_item.cluster]
}

# Lifecycle creates launch templates that are not in the Terraform state. On destroy, after lifecycle has stopped receiving
# messages, the catalog function deletes them. On create and update it does nothing.
resource "aws_lambda_invocation" "leave" {
  function_name   = local.serving["catalog"].name
  lifecycle_scope = "CRUD"

  input = jsonencode({
    action  = "leave"
    cluster = local.cluster
  })

  depends_on = [aws_iam_role_policy_attachment.shared, aws_dynamodb_table_item.cluster]
}

resource "aws_lambda_event_source_mapping" "interruption" {
  event_source_arn = aws_sqs_queue.interruption.arn
  function_name    = local.serving["interruption"].arn
  # The termination of a thousand nodes causes two thousand events. A window of a second is little of the two minutes after which EC2
  # interrupts a spot instance.
  batch_size                         = 100
  maximum_batching_window_in_seconds = 1
  function_response_types            = ["ReportBatchItemFailures"]
  tags                               = local.mapping_tags

  scaling_config {
    # A thousand warnings are ten batches.
    maximum_concurrency = 5
  }

  depends_on = [aws_iam_role_policy_attachment.shared, aws_dynamodb_table_item.cluster]
}
