# One planner at a time for each cluster: a FIFO queue with the cluster as the only message group. SQS delivers no further
# message of a group while one is in flight, so Lambda runs one invocation at a time for it.
#
# A plan after a killed planner waits for this queue's visibility timeout. It must not be shorter than the function's timeout
# (Lambda rejects the mapping, and a slow plan would run twice), so it is that plus five seconds: 45 s by default, within the
# target of one minute. AWS recommends six times the timeout because of throttled invocations; here a message that is delivered
# again early is harmless, because the next heartbeat requests the same plan.
resource "aws_sqs_queue" "plan" {
  name       = "${local.name}-plan.fifo"
  fifo_queue = true
  # EventBridge sends no deduplication id and rejects FIFO targets without this. Each body contains its time, so no two are
  # equal; a sender may still set its own id, as wake does to send at most one message in half a second.
  content_based_deduplication = true
  visibility_timeout_seconds  = local.timeouts.planner + 5
  # Several heartbeats have replaced a wake-up that is older than this.
  message_retention_seconds = 600
  sqs_managed_sse_enabled   = var.kms_key_arns.queues == null ? true : null
  kms_master_key_id         = var.kms_key_arns.queues
  tags                      = local.tags

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.plan_dead_letters.arn
    # A message that always fails blocks its group, and with it the cluster, while it is retried.
    maxReceiveCount = 3
  })
}

resource "aws_sqs_queue" "plan_dead_letters" {
  name                      = "${local.name}-plan-dead-letters.fifo"
  fifo_queue                = true
  message_retention_seconds = 1209600
  sqs_managed_sse_enabled   = var.kms_key_arns.queues == null ? true : null
  kms_master_key_id         = var.kms_key_arns.queues
  tags                      = local.tags
}

# One message for each shard of claims; a shard with a later due time gets a new message with a delay.
resource "aws_sqs_queue" "claims" {
  name                       = "${local.name}-claims"
  visibility_timeout_seconds = local.timeouts.lifecycle + 30
  # The sweep finds every claim again within a minute.
  message_retention_seconds = 3600
  sqs_managed_sse_enabled   = var.kms_key_arns.queues == null ? true : null
  kms_master_key_id         = var.kms_key_arns.queues
  tags                      = local.tags

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.claims_dead_letters.arn
    maxReceiveCount     = 5
  })
}

resource "aws_sqs_queue" "claims_dead_letters" {
  name                      = "${local.name}-claims-dead-letters"
  message_retention_seconds = 1209600
  sqs_managed_sse_enabled   = var.kms_key_arns.queues == null ? true : null
  kms_master_key_id         = var.kms_key_arns.queues
  tags                      = local.tags
}

resource "aws_sqs_queue" "interruption" {
  name                       = "${local.name}-interruption"
  visibility_timeout_seconds = local.timeouts.interruption + 10
  # A spot instance is interrupted two minutes after its warning. After that the sweep detects it.
  message_retention_seconds = 300
  sqs_managed_sse_enabled   = var.kms_key_arns.queues == null ? true : null
  kms_master_key_id         = var.kms_key_arns.queues
  tags                      = local.tags

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.interruption_dead_letters.arn
    maxReceiveCount     = 4
  })
}

resource "aws_sqs_queue" "interruption_dead_letters" {
  name                      = "${local.name}-interruption-dead-letters"
  message_retention_seconds = 1209600
  sqs_managed_sse_enabled   = var.kms_key_arns.queues == null ? true : null
  kms_master_key_id         = var.kms_key_arns.queues
  tags                      = local.tags
}

# One refresh at a time for each cluster, as for plans: the cluster is the message group of all messages but the weekly report's.
resource "aws_sqs_queue" "catalog" {
  name       = "${local.name}-catalog.fifo"
  fifo_queue = true
  # EventBridge sends no deduplication id. The planner does: one message a minute for an EC2NodeClass that waits for its status.
  content_based_deduplication = true
  visibility_timeout_seconds  = local.timeouts.catalog + 5
  # The schedule has replaced older messages.
  message_retention_seconds = 600
  sqs_managed_sse_enabled   = var.kms_key_arns.queues == null ? true : null
  kms_master_key_id         = var.kms_key_arns.queues
  tags                      = local.tags

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.catalog_dead_letters.arn
    # A crashing function blocks its group, and with it every EC2NodeClass, for the visibility timeout each time.
    maxReceiveCount = 2
  })
}

resource "aws_sqs_queue" "catalog_dead_letters" {
  name                      = "${local.name}-catalog-dead-letters.fifo"
  fifo_queue                = true
  message_retention_seconds = 1209600
  sqs_managed_sse_enabled   = var.kms_key_arns.queues == null ? true : null
  kms_master_key_id         = var.kms_key_arns.queues
  tags                      = local.tags
}

locals {
  event_queues = {
    plan         = { queue = aws_sqs_queue.plan, rules = [aws_cloudwatch_event_rule.schedule["heartbeat"].arn] }
    claims       = { queue = aws_sqs_queue.claims, rules = concat([aws_cloudwatch_event_rule.schedule["sweep"].arn], aws_cloudwatch_event_rule.zonal_shift[*].arn) }
    interruption = { queue = aws_sqs_queue.interruption, rules = [for r in aws_cloudwatch_event_rule.interruption : r.arn] }
    catalog      = { queue = aws_sqs_queue.catalog, rules = [for name in ["catalog", "report"] : aws_cloudwatch_event_rule.schedule[name].arn if contains(keys(local.schedules), name)] }
  }
}

resource "aws_sqs_queue_policy" "events" {
  for_each = local.event_queues

  queue_url = each.value.queue.url
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "OnlyOurRules"
        Effect    = "Allow"
        Principal = { Service = "events.amazonaws.com" }
        Action    = "sqs:SendMessage"
        Resource  = each.value.queue.arn
        Condition = { ArnEquals = { "aws:SourceArn" = each.value.rules } }
      },
      {
        Sid       = "OnlyTLS"
        Effect    = "Deny"
        Principal = "*"
        Action    = "sqs:*"
        Resource  = each.value.queue.arn
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
    ]
  })
}
