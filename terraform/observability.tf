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
      PendingPods         = "Maximum"
      UnschedulablePods   = "Maximum"
      WebhookCalls        = "Sum"
      PlansWithoutNewPods = "Sum"
      UnusedLaunches      = "Maximum"

      ExpectedPodsCame              = "Sum"
      ExpectedPodsMissing           = "Sum"
      ExpectedPodsUnusedNodeSeconds = "Sum"
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
      InterruptionsLost = "Sum"
      OrphansCollected  = "Sum"
      ChurnStopped      = "Maximum"
      AmiCanariesFailed = "Maximum"
    }
    Latency = {
      LaunchLatencyMilliseconds       = "p90"
      RegistrationLatencyMilliseconds = "p90"
    }
    Health = {
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

  # The functions whose failure no other alarm reports soon. Messages that catalog and interruption fail to handle become dead letters, a
  # catalog that is not refreshed is old, silence of wake has its alarm, and Terraform waits for the answer of the installer. A warning
  # expires in the queue of an interruption function that is not invoked.
  failing   = { for name in ["planner", "lifecycle"] : name => aws_lambda_function.function[name].function_name if !local.shares_functions }
  throttled = { for name in ["planner", "lifecycle", "interruption"] : name => aws_lambda_function.function[name].function_name if !local.shares_functions }

  alarm_actions = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]

  # The alarms on one metric of the functions: it has been above the threshold for all of the periods. A missing value is none above it:
  # metrics about what should not be are published only while it is. A threshold of a variable that is zero means no alarm, because null
  # would restore the default. Only on request there are alarms for budgets and limits of the cluster, because most clusters have none, and
  # for the number of nodes, which their price limits too; the metric of budgets is published every five minutes, and its period is an hour,
  # so that the alarm does not change between two of these.
  metric_alarms = {
    for name, alarm in {
      # A single failure may be an instance profile that is not visible yet; one that persists fails with every plan.
      launch-failures = {
        metric      = "LaunchFailures", statistic = "Sum", period = 300, periods = 3, threshold = 0, enabled = var.alarms.launch_failures
        description = "Launches have failed for a quarter of an hour, for a reason other than a lack of capacity: pods stay pending. The lines launch-failed in the log of lifecycle have the answers of EC2. See docs/operate/alarms.md#launch-failures."
      }
      unschedulable-pods = {
        metric      = "UnschedulablePods", statistic = "Maximum", period = 300, periods = 6, threshold = 0, enabled = var.alarms.unschedulable_pods
        description = "A pod has fitted no NodePool for half an hour, so no node is launched for it. The event FailedScheduling of nodeless on the pod has the reason for each NodePool. See docs/operate/alarms.md#unschedulable-pods."
      }
      unused-launches = {
        metric      = "UnusedLaunches", statistic = "Maximum", period = 300, periods = 1, threshold = 0, enabled = var.alarms.unused_launches
        description = "Nodes were launched for pods of a workload and became ready, and kube-scheduler placed none of these pods there: they are launched for less and less often. The event FailedScheduling of nodeless on the pods names the workload, that of kube-scheduler the reason. See docs/operate/alarms.md#unused-launches."
      }
      plans-without-new-pods = {
        metric      = "PlansWithoutNewPods", statistic = "Sum", period = 3600, periods = 1, threshold = var.alarms.plans_without_new_pods_per_hour, enabled = var.alarms.plans_without_new_pods_per_hour > 0
        description = "The webhook requested more plans in an hour than expected for pods that earlier plans have seen, or for none: somebody creates many Events FailedScheduling, or calls wake. No other pod waits for that, but plans cost more than necessary. See docs/operate/alarms.md#plans-without-new-pods."
      }
      # The schedule refreshes every five minutes.
      catalog-age = {
        metric      = "CatalogAgeSeconds", statistic = "Maximum", period = 300, periods = 1, threshold = 3600, enabled = true
        description = "The catalog, or an EC2NodeClass, has not been refreshed completely for more than an hour: prices, AMIs and the status of EC2NodeClasses are old, and new nodes are launched from them. The lines failed and catalog-not-refreshed in the log of catalog name the cause. See docs/operate/alarms.md#catalog-age."
      }
      interruptions-lost = {
        metric      = "InterruptionsLost", statistic = "Sum", period = 300, periods = 1, threshold = 0, enabled = true
        description = "Messages about interruptions could not be handled and were deleted: their nodes are not drained before EC2 takes them back. The lines message-given-up in the log of interruption contain the error. See docs/operate/alarms.md#interruptions-lost."
      }
      churn = {
        metric      = "ChurnStopped", statistic = "Maximum", period = 300, periods = 1, threshold = 0, enabled = var.alarms.churn
        description = "Voluntary disruption of a NodePool has stopped: it evicted many pods within an hour and its nodes cost no less. The event DisruptionStopped on the NodePool contains the number. Disruption continues when the hour is over. See docs/operate/alarms.md#churn."
      }
      # A single plan may find a pod that is not ready for a moment.
      ami-canary = {
        metric      = "AmiCanariesFailed", statistic = "Maximum", period = 300, periods = 2, threshold = 0, enabled = var.alarms.ami_canary
        description = "Nodes are not replaced by ones with a new AMI, because the first node with it does not join, is not ready, or has pods that are not ready. The event AmiCanaryFailed on the NodePool names the AMI and the reason. Correct the cause or select the previous AMI. See docs/operate/alarms.md#ami-canary."
      }
      budget = {
        metric      = "BudgetsExceeded", statistic = "Maximum", period = 3600, periods = 1, threshold = 0, enabled = var.alarms.budget
        description = "Nodes cost more this month than a budget (annotation nodeless.sh/dollars-per-month), or will at the present pace. The event BudgetExceeded on the NodePool or the Namespace kube-system contains the amounts. Nothing is stopped. See docs/operate/alarms.md#budget."
      }
      node-count = {
        metric      = "NodeCount", statistic = "Maximum", period = 60, periods = 1, threshold = var.alarms.node_count, enabled = var.alarms.node_count > 0
        description = "More nodes than expected. Look at the NodePool limits and the newest decisions in the planner's log. See docs/operate/alarms.md#node-count."
      }
      hourly-spend = {
        metric      = "HourlySpendDollars", statistic = "Maximum", period = 60, periods = 1, threshold = var.alarms.hourly_spend_dollars, enabled = var.alarms.hourly_spend_dollars > 0
        description = "Nodes cost more dollars an hour than expected. Look at the NodePool limits and the newest decisions. See docs/operate/alarms.md#hourly-spend."
      }
      cluster-limit = {
        metric      = "ClusterLimitUsedPercent", statistic = "Maximum", period = 60, periods = 1, threshold = var.alarms.cluster_limit_percent, enabled = var.alarms.cluster_limit_percent > 0
        description = "A limit of the whole cluster (annotations nodeless.sh/max-dollars-per-hour, max-nodes and max-cpu of the Namespace kube-system) is almost reached, reached, or invalid. Launches that would exceed it are not made, and their pods stay pending. See docs/operate/alarms.md#cluster-limit."
      }
      nodes-launched = {
        metric      = "NodesLaunched", statistic = "Sum", period = 3600, periods = 1, threshold = var.alarms.nodes_launched_per_hour, enabled = var.alarms.nodes_launched_per_hour > 0
        description = "More launches in an hour than expected. The cause may be nodes that never register, or a workload that scales up and down repeatedly. See docs/operate/alarms.md#nodes-launched."
      }
    } : name => alarm if var.alarms.enabled && alarm.enabled
  }
}

resource "aws_cloudwatch_metric_alarm" "metric" {
  for_each = local.metric_alarms

  alarm_name          = "${local.name}-${each.key}"
  alarm_description   = each.value.description
  namespace           = local.namespace
  metric_name         = each.value.metric
  dimensions          = { Cluster = local.cluster }
  statistic           = each.value.statistic
  period              = each.value.period
  evaluation_periods  = each.value.periods
  threshold           = each.value.threshold
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.alarm_actions
  ok_actions          = local.alarm_actions
  tags                = local.tags
}

# Functions that other clusters share have the alarms of the module that creates them.
resource "aws_cloudwatch_metric_alarm" "errors" {
  count = var.alarms.enabled && length(local.failing) > 0 ? 1 : 0

  alarm_name          = "${local.name}-errors"
  alarm_description   = "The planner or lifecycle of nodeless failed as a whole in three of five minutes. Their log groups are /aws/lambda/${local.name}-planner and /aws/lambda/${local.name}-lifecycle. See docs/operate/alarms.md#errors."
  evaluation_periods  = 5
  datapoints_to_alarm = 3
  threshold           = 1
  comparison_operator = "GreaterThanOrEqualToThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.alarm_actions
  ok_actions          = local.alarm_actions
  tags                = local.tags

  metric_query {
    id          = "failed"
    expression  = "SUM(METRICS())"
    label       = "Invocations that failed as a whole"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = local.failing
    content {
      id = metric_query.key
      metric {
        namespace   = "AWS/Lambda"
        metric_name = "Errors"
        dimensions  = { FunctionName = metric_query.value }
        stat        = "Sum"
        period      = 60
      }
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "throttles" {
  count = var.alarms.enabled && var.alarms.throttles && length(local.throttled) > 0 ? 1 : 0

  alarm_name          = "${local.name}-throttles"
  alarm_description   = "Lambda refused invocations of functions of nodeless in three of five minutes, because no concurrency was left: work is late. The metric Throttles of each function shows which; other functions of the account may use up its concurrency. See docs/operate/alarms.md#throttles."
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
    for_each = local.throttled
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

# Lambda drops nothing of functions that may loop.
resource "aws_cloudwatch_metric_alarm" "recursion" {
  for_each = var.alarms.enabled && !local.recursive_loop_allowed ? local.looping : toset([])

  alarm_name          = "${local.name}-${each.key}-recursion"
  alarm_description   = "Lambda detected messages of nodeless as a recursive loop and dropped them: nodes are reconciled only once a minute. Set recursive_loop_allowed = true and apply, or allow recursive loops of ${local.name}-${each.key} manually. See docs/operate/alarms.md#recursion."
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
  alarm_description   = "Messages failed repeatedly and are now dead letters. Read them in ${each.value}, fix the cause, then redrive or purge. See docs/operate/alarms.md#dead-letters."
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
# API server stops both. Each plan publishes one sample of PendingPods, and each complete sweep one of NodeCount. Metric math treats a missing value as 0 if the other metric has one:
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html
resource "aws_cloudwatch_metric_alarm" "stale" {
  count = var.alarms.enabled ? 1 : 0

  alarm_name          = "${local.name}-stale"
  alarm_description   = "No plan or no sweep has completed for five minutes: pending pods get no nodes, or nodes are not removed. The numbers of samples of PendingPods (plans) and NodeCount (sweeps) show which of the two is missing. Look at the logs of the planner and lifecycle and at their dead letters; are the API server and DynamoDB reachable, and are the schedules enabled? See docs/operate/alarms.md#stale."
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
    for_each = { plans = "PendingPods", sweeps = "NodeCount" }
    content {
      id = metric_query.key
      metric {
        namespace   = local.namespace
        metric_name = metric_query.value
        dimensions  = { Cluster = local.cluster }
        stat        = "SampleCount"
        period      = 60
      }
    }
  }

  # An alarm that is created minutes before the first plan is possible would be in ALARM for all of them.
  depends_on = [aws_cloudwatch_event_target.heartbeat, aws_cloudwatch_event_target.sweep]
}

# kube-scheduler writes an Event for a pending pod every few minutes, and each one calls wake. The planner publishes both
# metrics with every plan while pods are pending, even if no call arrived.
resource "aws_cloudwatch_metric_alarm" "wake_silent" {
  count = var.alarms.enabled && local.wake_enabled && var.schedules_enabled ? 1 : 0

  alarm_name          = "${local.name}-wake-silent"
  alarm_description   = "Pods were pending for half an hour, and no call of the API server reached the planner: each pod waits up to a minute for the heartbeat. Does the webhook nodeless-wake exist, can the control plane reach the Function URL (controlPlaneEgressMode, wake_endpoint), and does the log of wake show errors? See docs/operate/alarms.md#wake-silent."
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
