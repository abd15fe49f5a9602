# A cluster that shares the functions of another deployment. Mocked as in module.tftest.hcl.

mock_provider "aws" {
  mock_data "aws_eks_cluster" {
    defaults = { vpc_config = [{ endpoint_public_access = true, public_access_cidrs = ["0.0.0.0/0"] }] }
  }
  override_data {
    target = data.aws_caller_identity.current
    values = { account_id = "111122223333" }
  }
  override_data {
    target = data.aws_partition.current
    values = { partition = "aws" }
  }
  override_data {
    target = data.aws_region.current
    values = { id = "eu-west-1", name = "eu-west-1" }
  }
  override_data {
    target = data.aws_secretsmanager_random_password.wake_path
    values = { random_password = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::111122223333:role/mock" }
  }
  mock_resource "aws_iam_policy" {
    defaults = { arn = "arn:aws:iam::111122223333:policy/mock" }
  }
  mock_resource "aws_lambda_function" {
    defaults = { arn = "arn:aws:lambda:eu-west-1:111122223333:function:mock" }
  }
  mock_resource "aws_lambda_function_url" {
    defaults = { function_url = "https://mock.lambda-url.eu-west-1.on.aws/" }
  }
  mock_resource "aws_cloudwatch_log_group" {
    defaults = { arn = "arn:aws:logs:eu-west-1:111122223333:log-group:mock" }
  }
  mock_resource "aws_cloudwatch_event_rule" {
    defaults = { arn = "arn:aws:events:eu-west-1:111122223333:rule/mock" }
  }
  mock_resource "aws_dynamodb_table" {
    defaults = { arn = "arn:aws:dynamodb:eu-west-1:111122223333:table/nodeless-with-a-name-of-the-greatest-length" }
  }
  override_resource {
    target = aws_sqs_queue.plan
    values = { arn = "arn:aws:sqs:eu-west-1:111122223333:nodeless-green-plan.fifo", url = "https://sqs.eu-west-1.amazonaws.com/111122223333/nodeless-green-plan.fifo" }
  }
  override_resource {
    target = aws_sqs_queue.claims
    values = { arn = "arn:aws:sqs:eu-west-1:111122223333:nodeless-green-claims", url = "https://sqs.eu-west-1.amazonaws.com/111122223333/nodeless-green-claims" }
  }
  override_resource {
    target = aws_sqs_queue.interruption
    values = { arn = "arn:aws:sqs:eu-west-1:111122223333:nodeless-green-interruption", url = "https://sqs.eu-west-1.amazonaws.com/111122223333/nodeless-green-interruption" }
  }
  override_resource {
    target = aws_sqs_queue.catalog
    values = { arn = "arn:aws:sqs:eu-west-1:111122223333:nodeless-green-catalog.fifo", url = "https://sqs.eu-west-1.amazonaws.com/111122223333/nodeless-green-catalog.fifo" }
  }
  mock_resource "aws_sqs_queue" {
    defaults = { arn = "arn:aws:sqs:eu-west-1:111122223333:mock", url = "https://sqs.eu-west-1.amazonaws.com/111122223333/mock" }
  }
}

variables {
  cluster_name = "green"
}

# The output shared_functions of the module of cluster blue, with the artifacts of this test.
run "blue" {
  variables {
    cluster_name = "blue"
  }

  assert {
    condition     = aws_dynamodb_table.state[0].name == "nodeless-blue" && length(aws_dynamodb_table_item.cluster) == 0 && length(aws_iam_policy.shared) == 0
    error_message = "A cluster with functions of its own registers nothing."
  }

  assert {
    condition = { for name, f in output.shared_functions.functions : name => [f.name, f.role_name, f.timeout, f.reserved_concurrency] } == {
      planner      = ["nodeless-blue-planner", "nodeless-blue-eu-west-1-planner", 40, -1]
      lifecycle    = ["nodeless-blue-lifecycle", "nodeless-blue-eu-west-1-lifecycle", 90, -1]
      interruption = ["nodeless-blue-interruption", "nodeless-blue-eu-west-1-interruption", 30, -1]
      catalog      = ["nodeless-blue-catalog", "nodeless-blue-eu-west-1-catalog", 240, -1]
    }
    error_message = "The output must describe the four functions that can be shared."
  }
}

run "only_what_belongs_to_the_cluster_is_created" {
  variables {
    shared_functions = run.blue.shared_functions
  }

  assert {
    condition = (
      sort(keys(aws_lambda_function.function)) == tolist(["installer", "wake"]) &&
      sort(keys(aws_iam_role.function)) == tolist(["installer", "wake"]) &&
      sort(keys(aws_cloudwatch_log_group.function)) == tolist(["installer", "wake"]) &&
      length(aws_dynamodb_table.state) == 0 && length(aws_lambda_function_recursion_config.function) == 0
    )
    error_message = "The four shared functions, their roles, their logs and the table are those of the other module."
  }

  assert {
    condition = (
      aws_sqs_queue.plan.name == "nodeless-green-plan.fifo" && aws_sqs_queue.claims.name == "nodeless-green-claims" &&
      aws_cloudwatch_event_target.heartbeat.sqs_target[0].message_group_id == "green" &&
      aws_cloudwatch_event_rule.schedule["sweep"].name == "nodeless-green-sweep" &&
      aws_iam_instance_profile.node.name == "nodeless-green-eu-west-1-node"
    )
    error_message = "Queues, schedules, rules and the node role are each cluster's own."
  }

  assert {
    condition = { for name, m in { planner = aws_lambda_event_source_mapping.plan, lifecycle = aws_lambda_event_source_mapping.claims, interruption = aws_lambda_event_source_mapping.interruption, catalog = aws_lambda_event_source_mapping.catalog } : name => [m.function_name, m.event_source_arn] } == {
      planner      = [run.blue.shared_functions.functions.planner.arn, "arn:aws:sqs:eu-west-1:111122223333:nodeless-green-plan.fifo"]
      lifecycle    = [run.blue.shared_functions.functions.lifecycle.arn, "arn:aws:sqs:eu-west-1:111122223333:nodeless-green-claims"]
      interruption = [run.blue.shared_functions.functions.interruption.arn, "arn:aws:sqs:eu-west-1:111122223333:nodeless-green-interruption"]
      catalog      = [run.blue.shared_functions.functions.catalog.arn, "arn:aws:sqs:eu-west-1:111122223333:nodeless-green-catalog.fifo"]
    }
    error_message = "The cluster's queues must invoke the shared functions."
  }

  assert {
    condition = (
      aws_lambda_event_source_mapping.claims.scaling_config[0].maximum_concurrency == 10 &&
      aws_lambda_event_source_mapping.interruption.scaling_config[0].maximum_concurrency == 5 && aws_sqs_queue.plan.fifo_queue && aws_sqs_queue.catalog.fifo_queue
    )
    error_message = "Each queue has its own limit of concurrent invocations, so that one cluster cannot use those of another."
  }

  assert {
    condition     = { for name, entry in aws_eks_access_entry.controller : name => [entry.cluster_name, entry.principal_arn] } == { for name, f in run.blue.shared_functions.functions : name => ["green", f.role_arn] }
    error_message = "The roles of the shared functions need access entries in this cluster."
  }

  assert {
    condition = (
      jsondecode(aws_lambda_invocation.catalog[0].input).cluster == "green" && aws_lambda_invocation.catalog[0].function_name == "nodeless-blue-catalog" &&
      jsondecode(aws_lambda_invocation.leave.input).cluster == "green" && aws_lambda_invocation.leave.function_name == "nodeless-blue-catalog" &&
      aws_lambda_invocation.install[0].function_name == "nodeless-green-installer"
    )
    error_message = "Invocations of a shared function must name the cluster."
  }

  assert {
    condition = length(concat(aws_cloudwatch_metric_alarm.errors, aws_cloudwatch_metric_alarm.throttles, values(aws_cloudwatch_metric_alarm.recursion))) == 0 && alltrue([
      for q in one(aws_cloudwatch_metric_alarm.stale).metric_query : q.metric[0].dimensions == tomap({ Cluster = "green" }) if length(q.metric) > 0
    ])
    error_message = "Alarms of the shared functions are the other module's; those of the cluster have its dimension."
  }
}

run "the_registration_holds_what_the_functions_read" {
  variables {
    shared_functions  = run.blue.shared_functions
    extra_environment = { AWS_ENDPOINT_URL_EC2 = "http://127.0.0.1:1" }
    min_values_policy = "BestEffort"
  }

  assert {
    condition     = aws_dynamodb_table_item.cluster[0].table_name == "nodeless-blue" && jsondecode(aws_dynamodb_table_item.cluster[0].item).pk.S == "#clusters" && jsondecode(aws_dynamodb_table_item.cluster[0].item).sk.S == "cluster#green"
    error_message = "The keys of the registration are a contract with shared/state."
  }

  assert {
    condition = jsondecode(jsondecode(aws_dynamodb_table_item.cluster[0].item).queues.S) == {
      planner      = "arn:aws:sqs:eu-west-1:111122223333:nodeless-green-plan.fifo"
      lifecycle    = "arn:aws:sqs:eu-west-1:111122223333:nodeless-green-claims"
      interruption = "arn:aws:sqs:eu-west-1:111122223333:nodeless-green-interruption"
      catalog      = "arn:aws:sqs:eu-west-1:111122223333:nodeless-green-catalog.fifo"
    }
    error_message = "The functions identify the cluster of a message by the ARN of its queue."
  }

  assert {
    condition = jsonencode(keys(jsondecode(jsondecode(aws_dynamodb_table_item.cluster[0].item).environment.S))) == jsonencode([
      "AWS_ENDPOINT_URL_EC2", "CLUSTER_NAME", "NODELESS_BATCH_IDLE_DURATION", "NODELESS_BATCH_MAX_DURATION", "NODELESS_CATALOG_QUEUE_URL",
      "NODELESS_CLAIMS_QUEUE_URL", "NODELESS_COMMITMENTS", "NODELESS_COST_LABELS", "NODELESS_DISABLE_DRY_RUN", "NODELESS_EXPECTED_PODS", "NODELESS_FEATURE_GATES", "NODELESS_IAM_PATH", "NODELESS_INTERRUPTION_QUEUE_URL", "NODELESS_ISOLATED_VPC",
      "NODELESS_KEEP_SNAPSHOTS", "NODELESS_METRICS_BY_NODEPOOL", "NODELESS_MIN_VALUES_POLICY", "NODELESS_NODE_INSTANCE_PROFILE", "NODELESS_NODE_ROLE", "NODELESS_NOMINATIONS", "NODELESS_PLAN_QUEUE_URL",
      "NODELESS_PREFERENCE_POLICY", "NODELESS_REPORT_TOPIC_ARN", "NODELESS_RESERVED_ENIS", "NODELESS_SCHEDULER_CONFIG", "NODELESS_TABLE", "NODELESS_VM_MEMORY_OVERHEAD_PERCENT", "NODELESS_ZONAL_SHIFT",
    ])
    error_message = "The registration must hold the settings of all shared functions, and no secret path of wake."
  }

  assert {
    condition = (
      jsondecode(jsondecode(aws_dynamodb_table_item.cluster[0].item).environment.S).NODELESS_MIN_VALUES_POLICY == "BestEffort" &&
      jsondecode(jsondecode(aws_dynamodb_table_item.cluster[0].item).environment.S).NODELESS_TABLE == "nodeless-blue" &&
      jsondecode(jsondecode(aws_dynamodb_table_item.cluster[0].item).environment.S).CLUSTER_NAME == "green" &&
      endswith(jsondecode(jsondecode(aws_dynamodb_table_item.cluster[0].item).environment.S).NODELESS_PLAN_QUEUE_URL, "nodeless-green-plan.fifo")
    )
    error_message = "Settings and queues are those of the cluster, the table is the shared one."
  }
}

run "policies_fit_for_a_name_of_40_characters" {
  variables {
    shared_functions    = run.blue.shared_functions
    cluster_name        = "a-cluster-name-that-has-forty-characters"
    zonal_shift_enabled = true
  }

  assert {
    condition     = alltrue([for p in aws_iam_policy.shared : length(p.policy) <= 6144])
    error_message = "A managed policy has at most 6,144 characters: ${jsonencode({ for name, p in aws_iam_policy.shared : name => length(p.policy) })}"
  }

  assert {
    condition     = sort(keys(aws_iam_role_policy_attachment.shared)) == tolist(["catalog", "interruption", "lifecycle", "planner"])
    error_message = "Each shared function needs the permissions for this cluster, in one policy: a role has at most 10."
  }
}

run "policies_fit_for_a_name_of_30_characters_and_a_key_of_the_queues" {
  variables {
    shared_functions    = run.blue.shared_functions
    cluster_name        = "a-cluster-name-of-30-character"
    zonal_shift_enabled = true
    kms_key_arns        = { queues = "arn:aws:kms:eu-west-1:111122223333:key/mrk-1234567890abcdef1234567890abcdef" }
  }

  assert {
    condition     = alltrue([for p in aws_iam_policy.shared : length(p.policy) <= 6144]) && length(aws_iam_policy.shared) == 4
    error_message = "A managed policy has at most 6,144 characters: ${jsonencode({ for name, p in aws_iam_policy.shared : name => length(p.policy) })}"
  }
}

run "policies_fit_for_the_longest_name" {
  variables {
    shared_functions    = run.blue.shared_functions
    cluster_name        = "a-cluster-name-of-the-greatest-length-that-eks-allows-which-is-one-hundred-characters-and-not-more-a"
    zonal_shift_enabled = true
  }

  assert {
    condition     = alltrue([for p in aws_iam_policy.shared : length(p.policy) <= 6144 && length(p.name) <= 128])
    error_message = "A managed policy has at most 6,144 characters: ${jsonencode({ for name, p in aws_iam_policy.shared : name => length(p.policy) })}"
  }

  assert {
    condition     = sort(keys(aws_iam_role_policy_attachment.shared)) == tolist(["catalog", "interruption", "lifecycle", "lifecycle-2", "planner"])
    error_message = "Each shared function needs the permissions for this cluster."
  }

  assert {
    condition = (
      length(jsondecode(aws_iam_policy.shared["lifecycle"].policy).Statement) == 9 &&
      sort([for s in concat(jsondecode(aws_iam_policy.shared["lifecycle"].policy).Statement, jsondecode(aws_iam_policy.shared["lifecycle-2"].policy).Statement) : s.Sid]) == sort([
        "ReadZonalShifts", "FindCluster", "UseState", "FindClaimsOfInstances", "Receive", "Send", "PassNodeRole", "ReadEC2", "LaunchInto", "LaunchFromOurTemplates",
        "LaunchWithOurTags", "TagWhatIsLaunched", "TagOurInstances", "MarkOurTemplates", "DeleteOurs", "FirstSpotLaunch", "ReadClusters",
      ])
    )
    error_message = "The two policies of lifecycle must contain each statement once."
  }
}

run "another_account_or_region" {
  command = plan
  variables {
    shared_functions = merge(run.blue.shared_functions, { region = "us-east-1" })
  }
  expect_failures = [aws_dynamodb_table_item.cluster]
}

run "functions_of_the_cluster_itself" {
  command = plan
  variables {
    shared_functions = merge(run.blue.shared_functions, { cluster = "green" })
  }
  expect_failures = [aws_dynamodb_table_item.cluster]
}

run "concurrency_that_one_cluster_could_use_up" {
  command = plan
  variables {
    shared_functions = merge(run.blue.shared_functions, { functions = { for name, f in run.blue.shared_functions.functions : name => merge(f, { reserved_concurrency = 1 }) } })
  }
  expect_failures = [aws_dynamodb_table_item.cluster]
}

run "functions_of_another_release" {
  command = plan
  variables {
    shared_functions = merge(run.blue.shared_functions, { functions = { for name, f in run.blue.shared_functions.functions : name => merge(f, { artifact_hash = "b2xk" }) } })
  }
  expect_failures = [aws_dynamodb_table_item.cluster]
}

run "sizes_of_functions_that_this_module_does_not_create" {
  command = plan
  variables {
    shared_functions = run.blue.shared_functions
    functions        = { planner = { memory = 2048 } }
  }
  expect_failures = [aws_dynamodb_table_item.cluster]
}

run "environment_that_shared_functions_cannot_have" {
  command = plan
  variables {
    shared_functions  = run.blue.shared_functions
    extra_environment = { HTTPS_PROXY = "http://127.0.0.1:1" }
  }
  expect_failures = [aws_dynamodb_table_item.cluster]
}

run "a_batch_window_that_the_shared_planner_has_no_time_for" {
  command = plan
  variables {
    shared_functions   = merge(run.blue.shared_functions, { functions = { for name, f in run.blue.shared_functions.functions : name => merge(f, { timeout = 30 }) } })
    batch_max_duration = "20s"
  }
  expect_failures = [aws_dynamodb_table_item.cluster]
}

run "a_key_of_a_table_that_this_module_does_not_create" {
  command = plan
  variables {
    shared_functions = run.blue.shared_functions
    kms_key_arns     = { table = "arn:aws:kms:eu-west-1:111122223333:key/table" }
  }
  expect_failures = [var.kms_key_arns]
}
