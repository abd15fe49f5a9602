# Functions that serve several clusters. The first module creates them; the modules of further clusters get its output
# `shared_functions`, create everything else for their cluster, and register the cluster in the table. docs/design/many-clusters.md
# explains why wake and installer are not shared.

locals {
  shares_functions = var.shared_functions != null
  shared_names     = ["planner", "lifecycle", "interruption", "catalog"]
  # The functions of this deployment that wake each other by messages.
  looping = toset([for name in local.shared_names : name if !local.shares_functions])

  # The functions that serve this cluster: those of this module, or those of another one.
  serving = local.shares_functions ? var.shared_functions.functions : {
    for name in local.shared_names : name => {
      name                 = aws_lambda_function.function[name].function_name
      arn                  = aws_lambda_function.function[name].arn
      role_name            = aws_iam_role.function[name].name
      role_arn             = aws_iam_role.function[name].arn
      log_group_name       = aws_cloudwatch_log_group.function[name].name
      artifact_hash        = local.artifact_hashes[name]
      timeout              = var.functions[name].timeout
      reserved_concurrency = var.functions[name].reserved_concurrency
    }
  }

  # Queues depend on the timeouts, and must not depend on the functions.
  timeouts = local.shares_functions ? { for name, f in var.shared_functions.functions : name => f.timeout } : { for name in local.shared_names : name => var.functions[name].timeout }

  table = local.shares_functions ? var.shared_functions.table : { name = aws_dynamodb_table.state[0].name, arn = aws_dynamodb_table.state[0].arn }

  # The functions and log groups of this cluster, its own and those that it shares.
  all_function_names = merge({ for name in keys(local.functions) : name => "${local.name}-${name}" }, local.shares_functions ? { for name, f in var.shared_functions.functions : name => f.name } : {})
  all_log_groups     = merge({ for name, group in aws_cloudwatch_log_group.function : name => group.name }, local.shares_functions ? { for name, f in var.shared_functions.functions : name => f.log_group_name } : {})

  default_sizes = {
    planner      = { memory = 1024, timeout = 40, reserved_concurrency = -1 }
    lifecycle    = { memory = 1024, timeout = 90, reserved_concurrency = -1 }
    interruption = { memory = 256, timeout = 30, reserved_concurrency = -1 }
    catalog      = { memory = 1024, timeout = 240, reserved_concurrency = -1 }
  }
}

# The shared functions' permissions for this cluster: the same statements as for a cluster with functions of its own. A policy has
# at most 6,144 characters, and that of lifecycle contains the name of the cluster 13 times: for a long name it is two policies, and with a
# key of the queues, whose statement comes on top, for a shorter one.
locals {
  shared_statements = { for name in local.shared_names : name => concat(local.statements[name], [local.read_clusters]) }
  split_lifecycle   = length(local.cluster) > (var.kms_key_arns.queues == null ? 40 : 30)

  shared_policies = { for name, part in {
    planner      = { function = "planner", from = 0, to = 100 }
    lifecycle    = { function = "lifecycle", from = 0, to = local.split_lifecycle ? 9 : 100 }
    lifecycle-2  = { function = "lifecycle", from = 9, to = 100 }
    interruption = { function = "interruption", from = 0, to = 100 }
    catalog      = { function = "catalog", from = 0, to = 100 }
  } : name => part if local.shares_functions && (name != "lifecycle-2" || local.split_lifecycle) }
}

resource "aws_iam_policy" "shared" {
  for_each = local.shared_policies

  name        = "${local.iam_name}-${each.key}"
  path        = var.iam_path
  description = "What nodeless ${each.value.function} may do for EKS cluster ${local.cluster}"
  tags        = local.tags

  policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [for i, statement in local.shared_statements[each.value.function] : statement if i >= each.value.from && i < each.value.to]
  })
}

resource "aws_iam_role_policy_attachment" "shared" {
  for_each = local.shared_policies

  role       = var.shared_functions.functions[each.value.function].role_name
  policy_arn = aws_iam_policy.shared[each.key].arn
}

# The registration of this cluster. The functions read it when a message of its queues arrives, and again each minute.
resource "aws_dynamodb_table_item" "cluster" {
  count = local.shares_functions ? 1 : 0

  table_name = local.table.name
  hash_key   = "pk"
  range_key  = "sk"

  item = jsonencode({
    pk = { S = "#clusters" }
    sk = { S = "cluster#${local.cluster}" }
    queues = { S = jsonencode({
      planner      = aws_sqs_queue.plan.arn
      lifecycle    = aws_sqs_queue.claims.arn
      interruption = aws_sqs_queue.interruption.arn
      catalog      = aws_sqs_queue.catalog.arn
    }) }
    environment = { S = jsonencode(merge(var.extra_environment, { CLUSTER_NAME = local.cluster }, [for name in local.shared_names : local.environment[name]]...)) }
  })

  lifecycle {
    precondition {
      condition     = var.shared_functions.account == local.account && var.shared_functions.region == local.region
      error_message = "shared_functions are in account ${var.shared_functions.account} and region ${var.shared_functions.region}. A cluster can only share functions of its own account and region."
    }

    precondition {
      condition     = var.shared_functions.cluster != local.cluster
      error_message = "shared_functions are those of cluster ${local.cluster} itself. Leave the variable out for the cluster whose module creates the functions."
    }

    precondition {
      condition     = alltrue([for f in var.shared_functions.functions : f.reserved_concurrency < 0])
      error_message = "The module of the shared functions reserves concurrency for ${join(", ", [for name, f in var.shared_functions.functions : name if f.reserved_concurrency >= 0])}: one cluster could use all of it. Set reserved_concurrency = -1 there."
    }

    precondition {
      condition     = alltrue([for name, f in var.shared_functions.functions : f.artifact_hash == local.artifact_hashes[name]])
      error_message = "The shared functions are of another release than the artifacts of this module. Use the same artifacts, and apply the module of the functions first."
    }

    precondition {
      condition     = alltrue([for name, sizes in local.default_sizes : var.functions[name] == sizes])
      error_message = "functions: planner, lifecycle, interruption and catalog are shared. Set their memory, timeout and reserved_concurrency in the module that creates them."
    }

    precondition {
      condition     = alltrue([for name in keys(var.extra_environment) : startswith(name, "AWS_ENDPOINT_URL")])
      error_message = "extra_environment of a cluster that shares functions may only set AWS_ENDPOINT_URL and AWS_ENDPOINT_URL_SERVICE: the functions have one process environment for all clusters."
    }

    precondition {
      condition     = try(tonumber(trimsuffix(trimsuffix(var.batch_max_duration, "s"), "m")) * (endswith(var.batch_max_duration, "ms") ? 0.001 : 1) <= max(10, local.timeouts.planner - 15), true)
      error_message = "batch_max_duration above 10 seconds must leave the shared planner 15 seconds of its timeout, ${local.timeouts.planner} s."
    }
  }
}
