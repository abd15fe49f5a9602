locals {
  # Functions that serve several clusters log the lines of all of them.
  of_cluster = local.shares_functions ? " and (cluster = '${local.cluster}' or span.cluster = '${local.cluster}')" : ""

  # The body: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html
  # Money is shown by queries of log lines, because CloudWatch charges for each metric.
  dashboard = templatefile("${path.module}/dashboard.json.tftpl", {
    region      = local.region
    cluster     = local.cluster
    of_cluster  = local.of_cluster
    planner_log = "SOURCE '${local.all_log_groups["planner"]}'"
    all_logs    = join(" | ", [for name in values(local.all_log_groups) : "SOURCE '${name}'"])
    function_metrics = jsonencode(concat([
      for name in sort(keys(local.all_function_names)) : [
        for metric in ["Errors", "Throttles"] : ["AWS/Lambda", metric, "FunctionName", local.all_function_names[name]]
      ]
    ]...))
  })
}

resource "aws_cloudwatch_dashboard" "nodeless" {
  count          = var.dashboard ? 1 : 0
  dashboard_name = local.name
  # Formatted in one way, so that white space of the file is no change.
  dashboard_body = jsonencode(jsondecode(local.dashboard))
}
