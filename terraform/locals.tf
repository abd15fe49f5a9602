data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}
data "aws_region" "current" {}

locals {
  account   = data.aws_caller_identity.current.account_id
  partition = data.aws_partition.current.partition
  # `id`, because 6.x deprecates `name` and 5.x does not have `region`.
  region    = data.aws_region.current.id
  iam_arn   = "arn:${local.partition}:iam::${local.account}"
  cluster   = var.cluster_name
  owned_tag = "kubernetes.io/cluster/${local.cluster}"

  cluster_arn = "arn:${local.partition}:eks:${local.region}:${local.account}:cluster/${local.cluster}"

  # Lambda allows 64 characters, cluster names have up to 100, EventBridge rules allow 64, and the longest suffix is
  # "-capacity-reservation". A shortened name ends in a hash, so that two long names with the same prefix differ.
  full_name = "nodeless-${local.cluster}"
  name      = length(local.full_name) <= 43 ? local.full_name : "${substr(local.full_name, 0, 36)}-${substr(sha256(local.full_name), 0, 6)}"

  # IAM is global: clusters with the same name in two regions must not conflict.
  full_iam_name = "${local.full_name}-${local.region}"
  iam_name      = length(local.full_iam_name) <= 50 ? local.full_iam_name : "${substr(local.full_iam_name, 0, 43)}-${substr(sha256(local.full_iam_name), 0, 6)}"

  # Not the attribute of the role, whose policy contains it.
  installer_role_arn = "${local.iam_arn}:role${var.iam_path}${local.iam_name}-installer"

  tags = merge(var.tags, { "nodeless/cluster" = local.cluster })

  function_names = toset(["planner", "lifecycle", "interruption", "catalog", "wake", "installer"])
  functions      = { for name in local.function_names : name => var.functions[name] if(name != "wake" || local.wake_enabled) && (name != "installer" || var.install) && !(local.shares_functions && contains(local.shared_names, name)) }

  # A random value that does not change: the data source returns a new one at each read, and terraform_data keeps the first.
  wake_path = local.wake_enabled ? "/${sensitive(terraform_data.wake_path[0].output)}" : ""
  wake_host = local.wake_enabled ? (startswith(coalesce(var.wake_endpoint, "-"), "https://") ? var.wake_endpoint : aws_lambda_function_url.wake[0].function_url) : ""
  wake_url  = local.wake_enabled ? "${trimsuffix(local.wake_host, "/")}${local.wake_path}" : ""

  # The environment variables of the functions. The Rust code uses the same names; the tests check both.
  environment = {
    planner = {
      NODELESS_TABLE             = local.table.name
      NODELESS_PLAN_QUEUE_URL    = aws_sqs_queue.plan.url
      NODELESS_CLAIMS_QUEUE_URL  = aws_sqs_queue.claims.url
      NODELESS_CATALOG_QUEUE_URL = aws_sqs_queue.catalog.url
      NODELESS_FEATURE_GATES     = "NodeRepair=${var.feature_gates.node_repair},RebootForRepair=${var.feature_gates.reboot_for_repair},SpotToSpotConsolidation=${var.feature_gates.spot_to_spot_consolidation}"
      NODELESS_ZONAL_SHIFT       = tostring(var.zonal_shift_enabled)
      NODELESS_KEEP_SNAPSHOTS    = var.keep_snapshots
      NODELESS_COST_LABELS       = length(var.cost_labels) > 0 ? join(",", var.cost_labels) : "none"
      NODELESS_PREFERENCE_POLICY = var.preference_policy
      NODELESS_MIN_VALUES_POLICY = var.min_values_policy
      NODELESS_SCHEDULER_CONFIG  = var.scheduler_config == "" ? "" : jsonencode(yamldecode(var.scheduler_config))

      NODELESS_BATCH_IDLE_DURATION = var.batch_idle_duration
      NODELESS_BATCH_MAX_DURATION  = var.batch_max_duration
      NODELESS_EXPECTED_PODS       = var.expected_pods
    }
    lifecycle = {
      NODELESS_TABLE             = local.table.name
      NODELESS_PLAN_QUEUE_URL    = aws_sqs_queue.plan.url
      NODELESS_CLAIMS_QUEUE_URL  = aws_sqs_queue.claims.url
      NODELESS_ZONAL_SHIFT       = tostring(var.zonal_shift_enabled)
      NODELESS_MIN_VALUES_POLICY = var.min_values_policy
      NODELESS_NOMINATIONS       = tostring(var.nominations_enabled)
      NODELESS_DISABLE_DRY_RUN   = tostring(var.disable_dry_run)

      NODELESS_METRICS_BY_NODEPOOL = tostring(var.metrics_by_nodepool)
    }
    interruption = {
      NODELESS_TABLE                  = local.table.name
      NODELESS_PLAN_QUEUE_URL         = aws_sqs_queue.plan.url
      NODELESS_CLAIMS_QUEUE_URL       = aws_sqs_queue.claims.url
      NODELESS_INTERRUPTION_QUEUE_URL = aws_sqs_queue.interruption.url
    }
    catalog = {
      NODELESS_TABLE                 = local.table.name
      NODELESS_PLAN_QUEUE_URL        = aws_sqs_queue.plan.url
      NODELESS_CLAIMS_QUEUE_URL      = aws_sqs_queue.claims.url
      NODELESS_CATALOG_QUEUE_URL     = aws_sqs_queue.catalog.url
      NODELESS_NODE_ROLE             = local.node_role_name
      NODELESS_NODE_INSTANCE_PROFILE = aws_iam_instance_profile.node.name
      NODELESS_IAM_PATH              = var.iam_path
      NODELESS_COMMITMENTS           = tostring(var.commitments)

      NODELESS_RESERVED_ENIS              = tostring(var.reserved_enis)
      NODELESS_VM_MEMORY_OVERHEAD_PERCENT = tostring(var.vm_memory_overhead_percent)
      NODELESS_ISOLATED_VPC               = tostring(var.isolated_vpc)
      NODELESS_DISABLE_DRY_RUN            = tostring(var.disable_dry_run)
      NODELESS_REPORT_TOPIC_ARN           = join("", local.report_topics)
    }
    wake = {
      NODELESS_PLAN_QUEUE_URL = aws_sqs_queue.plan.url
      NODELESS_WAKE_PATH      = local.wake_path
    }
    installer = {
      NODELESS_ROLE_ARN = local.installer_role_arn
      NODELESS_TABLE    = local.table.name
    }
  }

  common_environment = {
    CLUSTER_NAME = local.cluster
    NODELESS_LOG = var.log_level
    RUST_LOG     = var.log_level
  }
}
