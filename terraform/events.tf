locals {
  # Rules rather than EventBridge Scheduler: they need no role, and the functions read scheduled events anyway.
  schedules = merge({
    heartbeat = { expression = var.schedules.heartbeat, about = "Asks the planner for a plan each minute" }
    sweep     = { expression = var.schedules.sweep, about = "Asks lifecycle to compare claims, EC2 and the cluster" }
    catalog   = { expression = var.schedules.catalog, about = "Asks catalog to refresh types, prices, images and EC2NodeClass status" }
    }, { for topic in local.report_topics : "report" => {
      # In UTC.
      expression = "cron(0 7 ? * MON *)"
      about      = "Asks catalog to send the report of costs to ${topic}"
  } })

  report_topics = [for report in [var.weekly_report] : report.topic_arn if report != null]

  # EventBridge tries to deliver an event for 24 hours by default: a day without SQS would end with 1,440 sweeps. A later event of the
  # schedule replaces an older one, and interruptions are as old as their queue keeps them. The queues also keep messages, while Lambda does
  # not run the functions: planner and lifecycle drop heartbeats and sweeps that are older than two minutes. 60 seconds is the least that
  # EventBridge takes:
  # https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-rule-retry-policy.html
  # The next report comes a week later, so its event is kept for as long as EventBridge keeps one.
  event_ages = { heartbeat = 60, sweep = 60, catalog = 300, interruption = 300, report = 86400 }
  # EventBridge's own number. The provider sends 0 where it is left out.
  retries = 185

  interruption_rules = {
    spot-warning         = { source = ["aws.ec2"], detail-type = ["EC2 Spot Instance Interruption Warning"] }
    rebalance            = { source = ["aws.ec2"], detail-type = ["EC2 Instance Rebalance Recommendation"] }
    capacity-reservation = { source = ["aws.ec2"], detail-type = ["EC2 Capacity Reservation Instance Interruption Warning"] }
    # All instances of the account emit these events, so the states that need no action are filtered out.
    state-change = {
      source      = ["aws.ec2"]
      detail-type = ["EC2 Instance State-change Notification"]
      detail      = { state = ["stopping", "stopped", "shutting-down", "terminated"] }
    }
    scheduled-change = {
      source      = ["aws.health"]
      detail-type = ["AWS Health Event"]
      detail      = { service = ["EC2"], eventTypeCategory = ["scheduledChange"] }
    }
  }
}

resource "aws_cloudwatch_event_rule" "schedule" {
  for_each = local.schedules

  name                = "${local.name}-${each.key}"
  description         = each.value.about
  schedule_expression = each.value.expression
  state               = var.schedules_enabled ? "ENABLED" : "DISABLED"
  tags                = local.tags

  # Without the CRDs, the permissions and the catalog, a plan would only fail.
  depends_on = [aws_lambda_invocation.install, aws_lambda_invocation.catalog]
}

# Sent to the queue and not to the function: the queue prevents concurrent planners.
resource "aws_cloudwatch_event_target" "heartbeat" {
  rule      = aws_cloudwatch_event_rule.schedule["heartbeat"].name
  target_id = "plan-queue"
  arn       = aws_sqs_queue.plan.arn

  sqs_target {
    message_group_id = local.cluster
  }

  input_transformer {
    input_paths    = { at = "$.time" }
    input_template = "{\"kind\":\"wake\",\"source\":\"heartbeat\",\"at\":<at>}"
  }

  retry_policy {
    maximum_event_age_in_seconds = local.event_ages.heartbeat
    maximum_retry_attempts       = local.retries
  }
}

resource "aws_cloudwatch_event_target" "sweep" {
  rule      = aws_cloudwatch_event_rule.schedule["sweep"].name
  target_id = "claims-queue"
  arn       = aws_sqs_queue.claims.arn

  input_transformer {
    input_paths    = { at = "$.time" }
    input_template = "{\"kind\":\"sweep\",\"at\":<at>}"
  }

  retry_policy {
    maximum_event_age_in_seconds = local.event_ages.sweep
    maximum_retry_attempts       = local.retries
  }
}

# Sent to the queue for the same reason: it prevents concurrent refreshes.
resource "aws_cloudwatch_event_target" "catalog" {
  rule      = aws_cloudwatch_event_rule.schedule["catalog"].name
  target_id = "catalog-queue"
  arn       = aws_sqs_queue.catalog.arn

  sqs_target {
    message_group_id = local.cluster
  }

  input_transformer {
    input_paths    = { at = "$.time" }
    input_template = "{\"kind\":\"refresh\",\"at\":<at>}"
  }

  retry_policy {
    maximum_event_age_in_seconds = local.event_ages.catalog
    maximum_retry_attempts       = local.retries
  }
}

# In a message group of its own, because a message that is received again delays those of its group.
resource "aws_cloudwatch_event_target" "report" {
  count = length(local.report_topics)

  rule      = aws_cloudwatch_event_rule.schedule["report"].name
  target_id = "catalog-queue"
  arn       = aws_sqs_queue.catalog.arn

  sqs_target {
    message_group_id = "${local.cluster}-report"
  }

  input_transformer {
    input_paths    = { at = "$.time" }
    input_template = "{\"kind\":\"report\",\"at\":<at>}"
  }

  retry_policy {
    maximum_event_age_in_seconds = local.event_ages.report
    maximum_retry_attempts       = local.retries
  }
}

resource "aws_cloudwatch_event_rule" "interruption" {
  for_each = local.interruption_rules

  name          = "${local.name}-${each.key}"
  description   = "Sends ${each.key} events of EC2 instances to nodeless"
  event_pattern = jsonencode(each.value)
  tags          = local.tags
}

resource "aws_cloudwatch_event_target" "interruption" {
  for_each = local.interruption_rules

  rule      = aws_cloudwatch_event_rule.interruption[each.key].name
  target_id = "interruption-queue"
  arn       = aws_sqs_queue.interruption.arn

  retry_policy {
    maximum_event_age_in_seconds = local.event_ages.interruption
    maximum_retry_attempts       = local.retries
  }
}

# A zonal shift that starts or ends triggers a sweep, which reads the state from ARC: events only report that something changed,
# are best-effort, and may not name the cluster. API calls that CloudTrail reports are filtered
# out, because they include those of nodeless.
resource "aws_cloudwatch_event_rule" "zonal_shift" {
  count = var.zonal_shift_enabled ? 1 : 0

  name        = "${local.name}-zonal-shift"
  description = "Makes nodeless read zonal shifts at once"
  tags        = local.tags

  event_pattern = jsonencode({
    source      = ["aws.arc-zonal-shift"]
    detail-type = [for kind in ["Manual Shift ", "Autoshift ", "Practice Run ", "FIS Experiment Autoshift "] : { prefix = kind }]
  })
}

resource "aws_cloudwatch_event_target" "zonal_shift" {
  count = length(aws_cloudwatch_event_rule.zonal_shift)

  rule      = aws_cloudwatch_event_rule.zonal_shift[0].name
  target_id = "claims-queue"
  arn       = aws_sqs_queue.claims.arn

  input_transformer {
    input_paths    = { at = "$.time" }
    input_template = aws_cloudwatch_event_target.sweep.input_transformer[0].input_template
  }

  retry_policy {
    maximum_event_age_in_seconds = local.event_ages.sweep
    maximum_retry_attempts       = local.retries
  }
}
