locals {
  namespace = "nodeless"

  # Every metric of the functions, by topic. One dimension, Cluster: CloudWatch charges for each metric and dimension value, so nodes and
  # types are only in the logs. The tests compare the telemetry and the dashboard with this list.
  metrics = {
    Capacity = {
      NodeCount               = "Maximum"
      HourlySpendDollars      = "Maximum"
      ClusterLimitUsedPercent = "Maximum"
      BudgetsExceeded         = "Maximum"
    }
    Pods = {
      PendingPods       = "Maximum"
      UnschedulablePods = "Maximum"
      WebhookCalls      = "Sum"
    }
    Launches = {
      ClaimsCreated        = "Sum"
      NodesLaunched        = "Sum"
      NodesRegistered      = "Sum"
      NodesInitialized     = "Sum"
      LaunchFailures       = "Sum"
      InsufficientCapacity = "Sum"
    }
    Removals = {
      NodesTerminated   = "Sum"
      Evictions         = "Sum"
      Interruptions     = "Sum"
      OrphansCollected  = "Sum"
      ChurnStopped      = "Maximum"
      AmiCanariesFailed = "Maximum"
      NodesHeldBack     = "Maximum"
    }
    Latency = {
      PlanDurationMilliseconds        = "p90"
      LaunchLatencyMilliseconds       = "p90"
      RegistrationLatencyMilliseconds = "p90"
    }
    Health = {
      Heartbeat         = "Sum"
      PlansMade         = "Sum"
      PlansUnfinished   = "Sum"
      ReconcileErrors   = "Sum"
      CatalogAgeSeconds = "Maximum"
    }
  }

  metric_names = sort(flatten([for section in values(local.metrics) : keys(section)]))

  dead_letter_queues = {
    plan         = aws_sqs_queue.plan_dead_letters.name
    claims       = aws_sqs_queue.claims_dead_letters.name
    interruption = aws_sqs_queue.interruption_dead_letters.name
    catalog      = aws_sqs_queue.catalog_dead_letters.name
  }

  invoked_by_others = { for name in keys(local.functions) : name => aws_lambda_function.function[name].function_name if name != "installer" }

  alarm_actions = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]

  # A threshold of zero means no alarm: null would restore the default.
  limit_alarms = {
    for name, alarm in {
      node-count = {
        metric      = "NodeCount", statistic = "Maximum", period = 60, threshold = var.alarms.node_count
        description = "More nodes than expected. Look at the NodePool limits and the newest decisions in the planner's log. See docs/operate/node-count.md."
      }
      hourly-spend = {
        metric      = "HourlySpendDollars", statistic = "Maximum", period = 60, threshold = var.alarms.hourly_spend_dollars
        description = "Nodes cost more dollars an hour than expected. Look at the NodePool limits and the newest decisions. See docs/operate/hourly-spend.md."
      }
      cluster-limit = {
        metric      = "ClusterLimitUsedPercent", statistic = "Maximum", period = 60, threshold = var.alarms.cluster_limit_percent
        description = "A limit of the whole cluster (annotations nodeless.sh/max-dollars-per-hour, max-nodes and max-cpu of the Namespace kube-system) is almost reached, reached, or invalid. Launches that would exceed it are not made, and their pods stay pending. See docs/operate/cluster-limit.md."
      }
      nodes-launched = {
        metric      = "NodesLaunched", statistic = "Sum", period = 3600, threshold = var.alarms.nodes_launched_per_hour
        description = "More launches in an hour than expected. The cause may be nodes that never register, or a workload that scales up and down repeatedly. See docs/operate/nodes-launched.md."
      }
    } : name => alarm if var.alarms.enabled && alarm.threshold > 0
  }
}

resource "aws_cloudwatch_metric_alarm" "errors" {
  for_each = var.alarms.enabled ? local.functions : {}

  alarm_name          = "${local.name}-${each.key}-errors"
  alarm_description   = "nodeless ${each.key} failed as a whole in three of five minutes. Its log group is ${aws_cloudwatch_log_group.function[each.key].name}. See docs/operate/errors.md."
  namespace           = "AWS/Lambda"
  metric_name         = "Errors"
  dimensions          = { FunctionName = aws_lambda_function.function[each.key].function_name }
  statistic           = "Sum"
  period              = 60
  evaluation_periods  = 5
  datapoints_to_alarm = each.key == "installer" ? 1 : 3
  threshold           = 1
  comparison_operator = "GreaterThanOrEqualToThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.alarm_actions
  ok_actions          = local.alarm_actions
  tags                = local.tags
}

# One alarm for all functions that messages and calls invoke. Terraform waits for the answer of the installer, so a refusal of it is an
# error of the apply. Functions that other clusters share have the alarm of the module that creates them.
resource "aws_cloudwatch_metric_alarm" "throttles" {
  count = var.alarms.enabled && var.alarms.throttles && length(local.invoked_by_others) > 0 ? 1 : 0

  alarm_name          = "${local.name}-throttles"
  alarm_description   = "Lambda refused invocations of functions of nodeless in three of five minutes, because no concurrency was left: work is late. The dashboard shows which function; other functions of the account may use up its concurrency. See docs/operate/throttles.md."
  evaluation_periods  = 5
  datapoints_to_alarm = 3
  threshold           = 1
  comparison_operator = "GreaterThanOrEqualToThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.alarm_actions
  ok_actions          = local.alarm_actions
  tags                = local.tags

  metric_query {
    id          = "refused"
    expression  = "SUM(METRICS())"
    label       = "Invocations that Lambda refused"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = local.invoked_by_others
    content {
      id = metric_query.key
      metric {
        namespace   = "AWS/Lambda"
        metric_name = "Throttles"
        dimensions  = { FunctionName = metric_query.value }
        stat        = "Sum"
        period      = 60
      }
    }
  }
}

# A single failure may be an instance profile that is not visible yet; one that persists fails with every plan.
resource "aws_cloudwatch_metric_alarm" "launch_failures" {
  count = var.alarms.enabled && var.alarms.launch_failures ? 1 : 0

  alarm_name          = "${local.name}-launch-failures"
  alarm_description   = "Launches have failed for a quarter of an hour, for a reason other than a lack of capacity: pods stay pending. The lines launch-failed in the log of lifecycle have the answers of EC2. See docs/operate/launch-failures.md."
  namespace           = local.namespace
  metric_name         = "LaunchFailures"
  dimensions          = { Cluster = local.cluster }
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 3
  threshold           = 1
  comparison_operator = "GreaterThanOrEqualToThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.alarm_actions
  ok_actions          = local.alarm_actions
  tags                = local.tags
}

# Published only if there are such pods, so missing data is not breaching.
resource "aws_cloudwatch_metric_alarm" "unschedulable_pods" {
  count = var.alarms.enabled && var.alarms.unschedulable_pods ? 1 : 0

  alarm_name          = "${local.name}-unschedulable-pods"
  alarm_description   = "A pod has fitted no NodePool for half an hour, so no node is launched for it. The event FailedScheduling of nodeless on the pod has the reason for each NodePool. See docs/operate/unschedulable-pods.md."
  namespace           = local.namespace
  metric_name         = "UnschedulablePods"
  dimensions          = { Cluster = local.cluster }
  statistic           = "Maximum"
  period              = 300
  evaluation_periods  = 6
  threshold           = 1
  comparison_operator = "GreaterThanOrEqualToThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.alarm_actions
  ok_actions          = local.alarm_actions
  tags                = local.tags
}

resource "aws_cloudwatch_metric_alarm" "recursion" {
  for_each = var.alarms.enabled ? local.looping : toset([])

  alarm_name          = "${local.name}-${each.key}-recursion"
  alarm_description   = "Lambda detected messages of nodeless as a recursive loop and dropped them: nodes are reconciled only once a minute. Set recursive_loop_allowed = true and apply, or allow recursive loops of ${local.name}-${each.key} manually. See docs/operate/recursion.md."
  namespace           = "AWS/Lambda"
  metric_name         = "RecursiveInvocationsDropped"
  dimensions          = { FunctionName = aws_lambda_function.function[each.key].function_name }
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  threshold           = 1
  comparison_operator = "GreaterThanOrEqualToThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.alarm_actions
  ok_actions          = local.alarm_actions
  tags                = local.tags
}

resource "aws_cloudwatch_metric_alarm" "dead_letters" {
  for_each = { for name, queue in local.dead_letter_queues : name => queue if var.alarms.enabled }

  alarm_name          = "${local.name}-${each.key}-dead-letters"
  alarm_description   = "Messages failed repeatedly and are now dead letters. Read them in ${each.value}, fix the cause, then redrive or purge. See docs/operate/dead-letters.md."
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = each.value }
  statistic           = "Maximum"
  period              = 300
  evaluation_periods  = 1
  threshold           = 1
  comparison_operator = "GreaterThanOrEqualToThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.alarm_actions
  ok_actions          = local.alarm_actions
  tags                = local.tags
}

# The alarm for a complete outage, so missing data is the fault itself. One alarm for plans and sweeps, because an outage of the
# API server stops both. Metric math treats a missing value as 0 if the other metric has one:
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html
resource "aws_cloudwatch_metric_alarm" "stale" {
  count = var.alarms.enabled ? 1 : 0

  alarm_name          = "${local.name}-stale"
  alarm_description   = "No plan or no sweep has completed for five minutes: pending pods get no nodes, or nodes are not removed. The metrics PlansMade and Heartbeat show which of the two is missing. Look at the logs of the planner and lifecycle and at their dead letters; are the API server and DynamoDB reachable, and are the schedules enabled? See docs/operate/stale.md."
  evaluation_periods  = 5
  threshold           = 1
  comparison_operator = "LessThanThreshold"
  treat_missing_data  = "breaching"
  alarm_actions       = local.alarm_actions
  ok_actions          = local.alarm_actions
  tags                = local.tags

  metric_query {
    id          = "both"
    expression  = "plans * sweeps"
    label       = "Plans and sweeps that ended; 0 where either did not"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = { plans = "PlansMade", sweeps = "Heartbeat" }
    content {
      id = metric_query.key
      metric {
        namespace   = local.namespace
        metric_name = metric_query.value
        dimensions  = { Cluster = local.cluster }
        stat        = "Sum"
        period      = 60
      }
    }
  }

  # An alarm that is created minutes before the first plan is possible would be in ALARM for all of them.
  depends_on = [aws_cloudwatch_event_target.heartbeat, aws_cloudwatch_event_target.sweep]
}

# Published only if a breaker stops disruption, so missing data is not breaching.
resource "aws_cloudwatch_metric_alarm" "churn" {
  count = var.alarms.enabled && var.alarms.churn ? 1 : 0

  alarm_name          = "${local.name}-churn"
  alarm_description   = "Voluntary disruption of a NodePool has stopped: it evicted many pods within an hour and its nodes cost no less. The event DisruptionStopped on the NodePool contains the number. Disruption continues when the hour is over. See docs/operate/churn.md."
  namespace           = local.namespace
  metric_name         = "ChurnStopped"
  dimensions          = { Cluster = local.cluster }
  statistic           = "Maximum"
  period              = 300
  evaluation_periods  = 1
  threshold           = 1
  comparison_operator = "GreaterThanOrEqualToThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.alarm_actions
  ok_actions          = local.alarm_actions
  tags                = local.tags
}

# Published only while the first node with a new AMI fails, so missing data is not breaching. A single plan may find a pod that is
# not ready for a moment.
resource "aws_cloudwatch_metric_alarm" "ami_canary" {
  count = var.alarms.enabled && var.alarms.ami_canary ? 1 : 0

  alarm_name          = "${local.name}-ami-canary"
  alarm_description   = "Nodes are not replaced by ones with a new AMI, because the first node with it does not join, is not ready, or has pods that are not ready. The event AmiCanaryFailed on the NodePool names the AMI and the reason. Correct the cause or select the previous AMI. See docs/operate/ami-canary.md."
  namespace           = local.namespace
  metric_name         = "AmiCanariesFailed"
  dimensions          = { Cluster = local.cluster }
  statistic           = "Maximum"
  period              = 300
  evaluation_periods  = 2
  threshold           = 1
  comparison_operator = "GreaterThanOrEqualToThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.alarm_actions
  ok_actions          = local.alarm_actions
  tags                = local.tags
}

# Only on request, because most clusters have no budget. Published every five minutes while one is exceeded, so missing data is not breaching. The period is an hour, so that the alarm
# does not change between two of these.
resource "aws_cloudwatch_metric_alarm" "budget" {
  count = var.alarms.enabled && var.alarms.budget ? 1 : 0

  alarm_name          = "${local.name}-budget"
  alarm_description   = "Nodes cost more this month than a budget (annotation nodeless.sh/dollars-per-month), or will at the present pace. The event BudgetExceeded on the NodePool or the Namespace kube-system contains the amounts. Nothing is stopped. See docs/operate/budget.md."
  namespace           = local.namespace
  metric_name         = "BudgetsExceeded"
  dimensions          = { Cluster = local.cluster }
  statistic           = "Maximum"
  period              = 3600
  evaluation_periods  = 1
  threshold           = 1
  comparison_operator = "GreaterThanOrEqualToThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.alarm_actions
  ok_actions          = local.alarm_actions
  tags                = local.tags
}

# kube-scheduler writes an Event for a pending pod every few minutes, and each one calls wake. The planner publishes both
# metrics with every plan while pods are pending, even if no call arrived.
resource "aws_cloudwatch_metric_alarm" "wake_silent" {
  count = var.alarms.enabled && var.wake_enabled && var.schedules_enabled ? 1 : 0

  alarm_name          = "${local.name}-wake-silent"
  alarm_description   = "Pods were pending for half an hour, and no call of the API server reached the planner: each pod waits up to a minute for the heartbeat. Does the webhook nodeless-wake exist, can the control plane reach the Function URL (controlPlaneEgressMode, wake_endpoint), and does the log of wake show errors? See docs/operate/wake-silent.md."
  evaluation_periods  = 2
  threshold           = 1
  comparison_operator = "GreaterThanOrEqualToThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.alarm_actions
  ok_actions          = local.alarm_actions
  tags                = local.tags

  metric_query {
    id          = "silent"
    expression  = "IF(waiting > 0 AND calls < 1, 1, 0)"
    label       = "Pods wait and the webhook does not call"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = { waiting = { name = "PendingPods", stat = "Minimum" }, calls = { name = "WebhookCalls", stat = "Sum" } }
    content {
      id = metric_query.key
      metric {
        namespace   = local.namespace
        metric_name = metric_query.value.name
        dimensions  = { Cluster = local.cluster }
        stat        = metric_query.value.stat
        period      = 900
      }
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "limit" {
  for_each = local.limit_alarms

  alarm_name          = "${local.name}-${each.key}"
  alarm_description   = each.value.description
  namespace           = local.namespace
  metric_name         = each.value.metric
  dimensions          = { Cluster = local.cluster }
  statistic           = each.value.statistic
  period              = each.value.period
  evaluation_periods  = 1
  threshold           = each.value.threshold
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.alarm_actions
  ok_actions          = local.alarm_actions
  tags                = local.tags
}
