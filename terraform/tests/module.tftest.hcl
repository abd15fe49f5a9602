# Needs no account and no network: every resource is mocked. Run by tests/terraform/run.py, which also makes the zips and passes
# their place as artifacts_directory.

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
    values = { partition = "aws", dns_suffix = "amazonaws.com" }
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
    defaults = { arn = "arn:aws:dynamodb:eu-west-1:111122223333:table/mock" }
  }
  mock_resource "aws_sqs_queue" {
    defaults = { arn = "arn:aws:sqs:eu-west-1:111122223333:mock", url = "https://sqs.eu-west-1.amazonaws.com/111122223333/mock" }
  }
}

variables {
  cluster_name = "example"
}

run "environment_contract" {
  assert {
    condition = jsonencode({ for name, f in aws_lambda_function.function : name => sort(keys(f.environment[0].variables)) }) == jsonencode({
      planner      = ["CLUSTER_NAME", "NODELESS_BATCH_IDLE_DURATION", "NODELESS_BATCH_MAX_DURATION", "NODELESS_CATALOG_QUEUE_URL", "NODELESS_CLAIMS_QUEUE_URL", "NODELESS_COST_LABELS", "NODELESS_EXPECTED_PODS", "NODELESS_FEATURE_GATES", "NODELESS_KEEP_SNAPSHOTS", "NODELESS_LOG", "NODELESS_MIN_VALUES_POLICY", "NODELESS_PLAN_QUEUE_URL", "NODELESS_PREFERENCE_POLICY", "NODELESS_SCHEDULER_CONFIG", "NODELESS_TABLE", "NODELESS_ZONAL_SHIFT", "RUST_LOG"]
      lifecycle    = ["CLUSTER_NAME", "NODELESS_CLAIMS_QUEUE_URL", "NODELESS_DISABLE_DRY_RUN", "NODELESS_LOG", "NODELESS_METRICS_BY_NODEPOOL", "NODELESS_MIN_VALUES_POLICY", "NODELESS_NOMINATIONS", "NODELESS_PLAN_QUEUE_URL", "NODELESS_TABLE", "NODELESS_ZONAL_SHIFT", "RUST_LOG"]
      interruption = ["CLUSTER_NAME", "NODELESS_CLAIMS_QUEUE_URL", "NODELESS_INTERRUPTION_QUEUE_URL", "NODELESS_LOG", "NODELESS_PLAN_QUEUE_URL", "NODELESS_TABLE", "RUST_LOG"]
      catalog      = ["CLUSTER_NAME", "NODELESS_CATALOG_QUEUE_URL", "NODELESS_CLAIMS_QUEUE_URL", "NODELESS_COMMITMENTS", "NODELESS_DISABLE_DRY_RUN", "NODELESS_IAM_PATH", "NODELESS_ISOLATED_VPC", "NODELESS_LOG", "NODELESS_NODE_INSTANCE_PROFILE", "NODELESS_NODE_ROLE", "NODELESS_PLAN_QUEUE_URL", "NODELESS_REPORT_TOPIC_ARN", "NODELESS_RESERVED_ENIS", "NODELESS_TABLE", "NODELESS_VM_MEMORY_OVERHEAD_PERCENT", "RUST_LOG"]
      wake         = ["CLUSTER_NAME", "NODELESS_LOG", "NODELESS_PLAN_QUEUE_URL", "NODELESS_WAKE_PATH", "RUST_LOG"]
      installer    = ["CLUSTER_NAME", "NODELESS_LOG", "NODELESS_ROLE_ARN", "NODELESS_TABLE", "RUST_LOG"]
    })
    error_message = "The environment of a function changed. The Rust code reads these names; change both, and this test."
  }

  assert {
    condition     = nonsensitive(aws_lambda_function.function["wake"].environment[0].variables.NODELESS_WAKE_PATH) == "/0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL"
    error_message = "NODELESS_WAKE_PATH must be the raw path of a request, with its leading slash."
  }

  assert {
    condition     = alltrue([for f in aws_lambda_function.function : f.runtime == "provided.al2023" && f.handler == "bootstrap" && tolist(f.architectures) == tolist(["arm64"])])
    error_message = "Functions are bootstrap binaries on provided.al2023, for arm64 by default."
  }

  assert {
    condition     = alltrue([for name, g in aws_cloudwatch_log_group.function : g.retention_in_days == 30 && g.name == "/aws/lambda/nodeless-example-${name}"])
    error_message = "Every function has a log group of its own name, with retention."
  }
}

run "one_planner_at_a_time" {
  assert {
    condition     = aws_sqs_queue.plan.fifo_queue && endswith(aws_sqs_queue.plan.name, ".fifo")
    error_message = "The plan queue must be FIFO: its message group is what keeps planners apart."
  }

  assert {
    condition     = aws_cloudwatch_event_target.heartbeat.sqs_target[0].message_group_id == "example"
    error_message = "The heartbeat must send with the cluster as message group."
  }

  assert {
    condition     = aws_sqs_queue.catalog.fifo_queue && aws_cloudwatch_event_target.catalog.sqs_target[0].message_group_id == "example"
    error_message = "The catalog queue must be FIFO with the cluster as message group: that keeps refreshes apart."
  }

  assert {
    condition     = aws_sqs_queue.plan.content_based_deduplication && aws_sqs_queue.catalog.content_based_deduplication
    error_message = "EventBridge cannot send to a FIFO queue without content-based deduplication."
  }

  assert {
    condition     = alltrue([for t in [aws_cloudwatch_event_target.heartbeat, aws_cloudwatch_event_target.catalog] : strcontains(t.input_transformer[0].input_template, "<at>")])
    error_message = "Without its time, one heartbeat equals the next and is dropped as a duplicate for five minutes."
  }

  assert {
    condition = (
      aws_sqs_queue.plan.visibility_timeout_seconds >= aws_lambda_function.function["planner"].timeout &&
      aws_sqs_queue.plan.visibility_timeout_seconds <= 55
    )
    error_message = "The plan queue's visibility timeout must cover the planner's timeout, and bring the next plan within a minute."
  }

  assert {
    condition = (
      aws_sqs_queue.claims.visibility_timeout_seconds >= aws_lambda_function.function["lifecycle"].timeout &&
      aws_sqs_queue.interruption.visibility_timeout_seconds >= aws_lambda_function.function["interruption"].timeout &&
      aws_sqs_queue.catalog.visibility_timeout_seconds >= aws_lambda_function.function["catalog"].timeout
    )
    error_message = "A queue's visibility timeout must not be shorter than its function's timeout."
  }

  assert {
    condition     = jsondecode(replace(aws_cloudwatch_event_target.sweep.input_transformer[0].input_template, "<at>", "\"x\"")) == { kind = "sweep", at = "x" }
    error_message = "The sweep's message is not what lifecycle reads."
  }

  assert {
    condition     = jsondecode(replace(aws_cloudwatch_event_target.heartbeat.input_transformer[0].input_template, "<at>", "\"x\"")) == { kind = "wake", source = "heartbeat", at = "x" }
    error_message = "The heartbeat's message is not what the planner reads."
  }

  assert {
    condition     = jsondecode(replace(aws_cloudwatch_event_target.catalog.input_transformer[0].input_template, "<at>", "\"x\"")) == { kind = "refresh", at = "x" }
    error_message = "The schedule's message is not what the catalog function reads."
  }
}

run "an_outage_is_not_followed_by_its_events" {
  variables {
    zonal_shift_enabled = true
  }

  assert {
    condition = alltrue([
      for t in concat([aws_cloudwatch_event_target.heartbeat, aws_cloudwatch_event_target.sweep], aws_cloudwatch_event_target.zonal_shift) :
      t.retry_policy[0].maximum_event_age_in_seconds == 60 && t.retry_policy[0].maximum_retry_attempts > 0
    ])
    error_message = "The schedule repeats these events each minute: EventBridge must not keep them for a day, and must still try again."
  }

  assert {
    condition     = alltrue([for t in concat([aws_cloudwatch_event_target.catalog], values(aws_cloudwatch_event_target.interruption)) : t.retry_policy[0].maximum_event_age_in_seconds == 300 && t.retry_policy[0].maximum_retry_attempts > 0])
    error_message = "Events must not outlive what their queue is about."
  }
}

run "queues_fail_one_message_at_a_time" {
  assert {
    condition = alltrue([
      for m in [aws_lambda_event_source_mapping.plan, aws_lambda_event_source_mapping.claims, aws_lambda_event_source_mapping.interruption, aws_lambda_event_source_mapping.catalog] :
      tolist(m.function_response_types) == tolist(["ReportBatchItemFailures"])
    ])
    error_message = "Every mapping must let a batch fail one message at a time."
  }

  assert {
    condition = (
      alltrue([for m in [aws_lambda_event_source_mapping.plan, aws_lambda_event_source_mapping.claims, aws_lambda_event_source_mapping.catalog] : m.batch_size == 10 && m.maximum_batching_window_in_seconds == null])
      && aws_lambda_event_source_mapping.interruption.batch_size == 100
      && aws_lambda_event_source_mapping.interruption.maximum_batching_window_in_seconds == 1
    )
    error_message = "Only events of EC2 wait for others: SQS gives more than ten messages only with a window, and a FIFO queue allows none."
  }

  assert {
    condition     = alltrue([for q in [aws_sqs_queue.plan, aws_sqs_queue.claims, aws_sqs_queue.interruption] : jsondecode(q.redrive_policy).maxReceiveCount >= 3])
    error_message = "Every queue needs dead letters, and more than two tries before them."
  }

  assert {
    condition = (
      jsondecode(aws_sqs_queue.catalog.redrive_policy).maxReceiveCount * aws_sqs_queue.catalog.visibility_timeout_seconds < aws_sqs_queue.catalog.message_retention_seconds &&
      aws_sqs_queue.catalog_dead_letters.fifo_queue
    )
    error_message = "A message of the catalog queue on which the function crashes must become a dead letter before it expires."
  }

  assert {
    condition = alltrue([
      for q in [
        aws_sqs_queue.plan, aws_sqs_queue.plan_dead_letters, aws_sqs_queue.claims, aws_sqs_queue.claims_dead_letters,
        aws_sqs_queue.interruption, aws_sqs_queue.interruption_dead_letters, aws_sqs_queue.catalog, aws_sqs_queue.catalog_dead_letters,
      ] : q.sqs_managed_sse_enabled
    ])
    error_message = "Every queue is encrypted."
  }
}

run "interruption_rules" {
  assert {
    condition = sort([for r in aws_cloudwatch_event_rule.interruption : jsondecode(r.event_pattern).detail-type[0]]) == tolist([
      "AWS Health Event",
      "EC2 Capacity Reservation Instance Interruption Warning",
      "EC2 Instance Rebalance Recommendation",
      "EC2 Instance State-change Notification",
      "EC2 Spot Instance Interruption Warning",
    ])
    error_message = "The five kinds of interruption that Karpenter hears must reach the queue."
  }

  assert {
    condition     = length(aws_cloudwatch_event_target.interruption) == 5
    error_message = "Every interruption rule needs the queue as its target."
  }
}

run "karpenters_settings" {
  variables {
    batch_idle_duration        = "500ms"
    batch_max_duration         = "20s"
    reserved_enis              = 1
    vm_memory_overhead_percent = 0.1
    isolated_vpc               = true
    disable_dry_run            = true
    min_values_policy          = "BestEffort"
    preference_policy          = "Ignore"
    expected_pods              = "samples"
    scheduler_config           = <<-EOT
      podTopologySpread:
        defaultConstraints:
          - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, minDomains: 3}
    EOT
    feature_gates              = { node_repair = true, reboot_for_repair = true, static_capacity = true }
  }

  assert {
    condition = (
      aws_lambda_function.function["planner"].environment[0].variables.NODELESS_BATCH_IDLE_DURATION == "500ms" &&
      aws_lambda_function.function["planner"].environment[0].variables.NODELESS_BATCH_MAX_DURATION == "20s" &&
      aws_lambda_function.function["planner"].environment[0].variables.NODELESS_FEATURE_GATES == "NodeRepair=true,RebootForRepair=true,SpotToSpotConsolidation=false" &&
      aws_lambda_function.function["planner"].environment[0].variables.NODELESS_PREFERENCE_POLICY == "Ignore" &&
      aws_lambda_function.function["planner"].environment[0].variables.NODELESS_EXPECTED_PODS == "samples" &&
      aws_lambda_function.function["planner"].environment[0].variables.NODELESS_SCHEDULER_CONFIG == jsonencode({ podTopologySpread = { defaultConstraints = [{ maxSkew = 1, minDomains = 3, topologyKey = "topology.kubernetes.io/zone", whenUnsatisfiable = "DoNotSchedule" }] } }) &&
      aws_lambda_function.function["catalog"].environment[0].variables.NODELESS_RESERVED_ENIS == "1" &&
      aws_lambda_function.function["catalog"].environment[0].variables.NODELESS_VM_MEMORY_OVERHEAD_PERCENT == "0.1" &&
      aws_lambda_function.function["catalog"].environment[0].variables.NODELESS_ISOLATED_VPC == "true"
    )
    error_message = "Karpenter's settings must reach the function that reads them."
  }

  assert {
    condition = [
      for s in jsondecode(aws_iam_role_policy.function["lifecycle"].policy).Statement : s.Sid if contains(flatten([s.Action]), "ec2:RebootInstances")
    ] == ["DeleteOurs"]
    error_message = "Lifecycle may reboot instances with the tags of the cluster."
  }

  assert {
    condition = (
      aws_lambda_function.function["catalog"].environment[0].variables.NODELESS_DISABLE_DRY_RUN == "true" &&
      aws_lambda_function.function["lifecycle"].environment[0].variables.NODELESS_DISABLE_DRY_RUN == "true" &&
      aws_lambda_function.function["planner"].environment[0].variables.NODELESS_MIN_VALUES_POLICY == "BestEffort" &&
      aws_lambda_function.function["lifecycle"].environment[0].variables.NODELESS_MIN_VALUES_POLICY == "BestEffort"
    )
    error_message = "Settings that two functions use must reach both."
  }
}

run "without_commitments" {
  assert {
    condition = (
      alltrue([for name, p in aws_iam_role_policy.function : !strcontains(p.policy, "savingsplans:") && !strcontains(p.policy, "ReservedInstances")]) &&
      aws_lambda_function.function["catalog"].environment[0].variables.NODELESS_COMMITMENTS == "false"
    )
    error_message = "Commitments are not read unless asked for, and no right is granted for it."
  }
}

run "with_commitments" {
  variables {
    commitments = true
  }

  assert {
    condition = (
      aws_lambda_function.function["catalog"].environment[0].variables.NODELESS_COMMITMENTS == "true" &&
      alltrue([for name, p in aws_iam_role_policy.function : name == "catalog" || !strcontains(p.policy, "savingsplans:") && !strcontains(p.policy, "ReservedInstances")])
    )
    error_message = "Only the catalog function reads commitments."
  }

  assert {
    condition = [
      for s in jsondecode(aws_iam_role_policy.function["catalog"].policy).Statement : s.Resource if s.Sid == "ReadSavingsPlans"
    ] == ["arn:aws:savingsplans::111122223333:savingsplan/*"]
    error_message = "The rates and the list of Savings Plans are read of this account alone."
  }

  assert {
    condition = [
      for s in jsondecode(aws_iam_role_policy.function["catalog"].policy).Statement : s.Action if s.Sid == "ReadReservedInstances"
    ] == ["ec2:DescribeReservedInstances"]
    error_message = "Reserved Instances are read."
  }
}

run "without_zonal_shift" {
  assert {
    condition = (
      !strcontains(aws_iam_role_policy.function["lifecycle"].policy, "arc-zonal-shift") &&
      length(aws_cloudwatch_event_rule.zonal_shift) == 0 && length(aws_cloudwatch_event_target.zonal_shift) == 0 &&
      aws_lambda_function.function["lifecycle"].environment[0].variables.NODELESS_ZONAL_SHIFT == "false" &&
      aws_lambda_function.function["planner"].environment[0].variables.NODELESS_ZONAL_SHIFT == "false"
    )
    error_message = "Zonal shifts are off unless asked for, without a right, a rule or a call."
  }
}

run "with_zonal_shift" {
  variables {
    zonal_shift_enabled = true
  }

  assert {
    condition = (
      aws_lambda_function.function["lifecycle"].environment[0].variables.NODELESS_ZONAL_SHIFT == "true" &&
      aws_lambda_function.function["planner"].environment[0].variables.NODELESS_ZONAL_SHIFT == "true"
    )
    error_message = "Planner and lifecycle must honour shifts together."
  }

  assert {
    condition = [
      for s in jsondecode(aws_iam_role_policy.function["lifecycle"].policy).Statement : s.Condition.StringEquals["arc-zonal-shift:ResourceIdentifier"]
      if s.Sid == "ReadZonalShifts" && s.Action == "arc-zonal-shift:GetManagedResource"
    ] == ["arn:aws:eks:eu-west-1:111122223333:cluster/example"]
    error_message = "lifecycle must be allowed to read the shifts of this cluster, and of no other."
  }

  assert {
    condition = alltrue([
      for name, p in aws_iam_role_policy.function : name == "lifecycle" || !strcontains(p.policy, "arc-zonal-shift")
    ])
    error_message = "Only lifecycle reads ARC."
  }

  assert {
    condition = (
      jsondecode(aws_cloudwatch_event_rule.zonal_shift[0].event_pattern).source == ["aws.arc-zonal-shift"] &&
      aws_cloudwatch_event_target.zonal_shift[0].input_transformer[0].input_template == aws_cloudwatch_event_target.sweep.input_transformer[0].input_template
    )
    error_message = "Events of ARC must reach the claims queue as a message of the sweep."
  }

  assert {
    condition     = length(jsondecode(aws_sqs_queue_policy.events["claims"].policy).Statement[0].Condition.ArnEquals["aws:SourceArn"]) == 2
    error_message = "The claims queue must let the rule send."
  }
}

run "state_table" {
  assert {
    condition = (
      aws_dynamodb_table.state[0].hash_key == "pk" && aws_dynamodb_table.state[0].range_key == "sk" &&
      aws_dynamodb_table.state[0].billing_mode == "PAY_PER_REQUEST" &&
      [for i in aws_dynamodb_table.state[0].global_secondary_index : "${i.name}:${i.hash_key}"] == ["instance:instanceId"] &&
      aws_dynamodb_table.state[0].ttl[0].attribute_name == "expires" && aws_dynamodb_table.state[0].ttl[0].enabled &&
      aws_dynamodb_table.state[0].point_in_time_recovery[0].enabled && aws_dynamodb_table.state[0].deletion_protection_enabled
    )
    error_message = "Keys, index, TTL attribute or protection of the table changed. The Rust code relies on the names."
  }
}

run "planner_cannot_touch_ec2" {
  assert {
    condition = length([
      for a in flatten([for s in jsondecode(aws_iam_role_policy.function["planner"].policy).Statement : s.Action]) : a
      if !contains(["dynamodb", "eks", "logs", "sqs"], split(":", a)[0])
    ]) == 0
    error_message = "The planner may use DynamoDB, EKS, logs and SQS, nothing else."
  }

  assert {
    condition = jsonencode({
      for name, p in aws_iam_role_policy.function : name => sort(distinct([
        for a in flatten([for s in jsondecode(p.policy).Statement : s.Action]) : a if startswith(a, "ec2:") && !startswith(a, "ec2:Describe")
      ]))
      }) == jsonencode({
      planner      = []
      interruption = []
      wake         = []
      installer    = []
      catalog      = ["ec2:DeleteLaunchTemplate"]
      lifecycle    = ["ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:CreateTags", "ec2:DeleteLaunchTemplate", "ec2:RunInstances", "ec2:StartInstances", "ec2:StopInstances", "ec2:TerminateInstances"]
    })
    error_message = "Who may write what to EC2 changed."
  }

  assert {
    condition     = flatten([for s in jsondecode(aws_iam_role_policy.function["wake"].policy).Statement : s.Action]) == ["logs:CreateLogStream", "logs:PutLogEvents", "sqs:SendMessage"]
    error_message = "wake may send one kind of message and write its log."
  }

  assert {
    condition     = flatten([for s in jsondecode(aws_iam_role_policy.function["installer"].policy).Statement : s.Action]) == ["logs:CreateLogStream", "logs:PutLogEvents", "eks:DescribeCluster", "eks:AssociateAccessPolicy", "eks:DisassociateAccessPolicy"]
    error_message = "The installer may find the cluster, write its log, and make itself cluster-admin while it works."
  }
}

run "policies_are_scoped" {
  assert {
    condition = alltrue(flatten([
      for name, p in aws_iam_role_policy.function : [
        for s in jsondecode(p.policy).Statement : s.Effect == "Allow" && !contains(flatten([s.Action]), "*") &&
        !anytrue([for a in flatten([s.Action]) : endswith(a, ":*")])
      ]
    ]))
    error_message = "No policy may allow a whole service."
  }

  assert {
    condition = alltrue(flatten([
      for name, p in aws_iam_role_policy.function : [
        for s in jsondecode(p.policy).Statement :
        s.Resource != "*" || contains(["ReadEC2", "ReadPrices", "ListInstanceProfiles", "ReadZonalShifts"], s.Sid)
      ]
    ]))
    error_message = "Resource \"*\" is only for reads that take no resource."
  }

  # Terminating, and everything else that changes what exists, is held to the two ownership tags.
  assert {
    condition = alltrue([
      for s in jsondecode(aws_iam_role_policy.function["lifecycle"].policy).Statement :
      s.Condition.StringEquals["aws:ResourceTag/kubernetes.io/cluster/example"] == "owned" && s.Condition.StringLike["aws:ResourceTag/karpenter.sh/nodepool"] == "*"
      if contains(["DeleteOurs", "TagOurInstances", "MarkOurTemplates", "LaunchFromOurTemplates"], s.Sid)
    ])
    error_message = "Instances and templates of other clusters must be out of reach."
  }

  assert {
    condition = alltrue(flatten([
      for p in aws_iam_role_policy.function : [
        for s in jsondecode(p.policy).Statement : try(s.Condition.StringEquals["aws:ResourceTag/kubernetes.io/cluster/example"], "") == "owned"
        if anytrue([for a in flatten([s.Action]) : contains(["ec2:TerminateInstances", "ec2:StopInstances", "ec2:StartInstances", "ec2:DeleteLaunchTemplate"], a)])
      ]
    ]))
    error_message = "Only the statement with ownership conditions may delete, stop or start."
  }

  assert {
    condition = alltrue([
      for s in jsondecode(aws_iam_role_policy.function["lifecycle"].policy).Statement :
      s.Condition.StringEquals["aws:RequestTag/kubernetes.io/cluster/example"] == "owned" && s.Condition.StringEquals["aws:RequestTag/eks:eks-cluster-name"] == "example"
      if contains(["LaunchWithOurTags", "TagWhatIsLaunched"], s.Sid)
    ])
    error_message = "What is created must carry this cluster's tags."
  }

  assert {
    condition = alltrue([
      for name in ["lifecycle", "catalog"] : [
        for s in jsondecode(aws_iam_role_policy.function[name].policy).Statement : s.Resource if s.Sid == "PassNodeRole"
      ] == [["arn:aws:iam::111122223333:role/mock"]]
    ])
    error_message = "No role but the node role may be passed to EC2."
  }

  assert {
    condition = alltrue(flatten([
      for p in aws_iam_role_policy.function : [
        for s in jsondecode(p.policy).Statement : s.Condition["ForAllValues:StringLike"]["dynamodb:LeadingKeys"] == ["example", "example#*"]
        if s.Sid != "FindClaimsOfInstances" && anytrue([for a in flatten([s.Action]) : startswith(a, "dynamodb:")])
      ]
    ]))
    error_message = "Items of other clusters in the table must be out of reach."
  }

  # Inline policies of a role may have 10,240 characters together.
  assert {
    condition     = alltrue([for p in aws_iam_role_policy.function : length(p.policy) < 10000])
    error_message = "A role's inline policy is too long for IAM."
  }
}

run "inside_a_vpc" {
  variables {
    vpc_config = { subnet_ids = ["subnet-0a"], security_group_ids = ["sg-0a"] }
  }

  assert {
    condition = sort(flatten([
      for p in aws_iam_role_policy.function : [for s in jsondecode(p.policy).Statement : s.Condition.ArnEquals["lambda:SourceFunctionArn"] if s.Sid == "LeaveInterfacesToLambda"]
    ])) == sort([for name in keys(aws_iam_role_policy_attachment.vpc) : "arn:aws:lambda:eu-west-1:111122223333:function:nodeless-example-${name}"])
    error_message = "AWS's policy for functions inside a VPC holds for every network interface; the functions' own code must be denied it."
  }
}

run "access_entries" {
  assert {
    condition     = aws_eks_access_entry.node[0].type == "EC2_LINUX"
    error_message = "Nodes join through an EC2_LINUX access entry."
  }

  assert {
    condition = jsonencode({ for name, e in aws_eks_access_entry.controller : name => sort(e.kubernetes_groups) }) == jsonencode({
      planner      = ["nodeless:planner"]
      lifecycle    = ["nodeless:lifecycle"]
      interruption = ["nodeless:interruption"]
      catalog      = ["nodeless:catalog"]
    })
    error_message = "The groups of a function changed. infra/rbac binds them by these names."
  }

  assert {
    condition     = length(aws_eks_access_entry.installer[0].kubernetes_groups) == 0 && aws_eks_access_entry.installer[0].type == "STANDARD"
    error_message = "The installer has an access entry of its own, without any right."
  }
}

run "installer_rights" {
  variables {
    iam_path = "/teams/platform/"
  }

  assert {
    condition = jsonencode([
      for s in jsondecode(aws_iam_role_policy.function["installer"].policy).Statement : s if strcontains(s.Sid, "ClusterAdmin")
      ]) == jsonencode([
      {
        Action = "eks:AssociateAccessPolicy"
        Condition = {
          ArnEquals = {
            "eks:policyArn"    = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
            "eks:principalArn" = "arn:aws:iam::111122223333:role/teams/platform/nodeless-example-eu-west-1-installer"
          }
          StringEquals = { "eks:accessScope" = "cluster" }
        }
        Effect   = "Allow"
        Resource = "arn:aws:eks:eu-west-1:111122223333:access-entry/example/role/111122223333/*"
        Sid      = "BeginClusterAdmin"
      },
      {
        Action = "eks:DisassociateAccessPolicy"
        Condition = { ArnEquals = {
          "eks:policyArn"    = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
          "eks:principalArn" = "arn:aws:iam::111122223333:role/teams/platform/nodeless-example-eu-west-1-installer"
        } }
        Effect   = "Allow"
        Resource = "arn:aws:eks:eu-west-1:111122223333:access-entry/example/role/111122223333/*"
        Sid      = "EndClusterAdmin"
      },
    ])
    error_message = "The installer may make only itself cluster-admin, and only of this cluster."
  }

  # The ARN in the policy is composed.
  assert {
    condition = (
      aws_iam_role.function["installer"].path == "/teams/platform/" &&
      "arn:aws:iam::111122223333:role${aws_iam_role.function["installer"].path}${aws_iam_role.function["installer"].name}" == local.installer_role_arn &&
      aws_lambda_function.function["installer"].environment[0].variables["NODELESS_ROLE_ARN"] == local.installer_role_arn
    )
    error_message = "The ARN of the installer's role is not that of the role."
  }
}

run "access_of_your_own" {
  variables {
    create_access_entries = false
  }

  assert {
    condition     = length(aws_eks_access_entry.installer) == 0 && length(aws_lambda_invocation.install) == 1 && output.function_role_arns["installer"] != ""
    error_message = "Without access entries of the module, the installer is still invoked, and its role is an output."
  }
}

run "a_cluster_without_access_entries" {
  command = plan

  override_data {
    target = data.aws_eks_cluster.this
    values = {
      vpc_config    = [{ endpoint_public_access = true, public_access_cidrs = ["0.0.0.0/0"] }]
      access_config = [{ authentication_mode = "CONFIG_MAP" }]
    }
  }

  expect_failures = [check.cluster_fits]
}

run "installer_input" {
  assert {
    condition = (
      jsondecode(nonsensitive(aws_lambda_invocation.leave.input)).action == "leave" &&
      jsondecode(nonsensitive(aws_lambda_invocation.leave.input)).cluster == "example" &&
      aws_lambda_invocation.leave.function_name == aws_lambda_function.function["catalog"].function_name &&
      aws_lambda_invocation.leave.lifecycle_scope == "CRUD"
    )
    error_message = "Terraform must invoke the catalog function when it destroys: it deletes the launch templates."
  }

  assert {
    condition = (
      jsondecode(nonsensitive(aws_lambda_invocation.install[0].input)).action == "install" &&
      jsondecode(nonsensitive(aws_lambda_invocation.install[0].input)).cluster == "example" &&
      jsondecode(nonsensitive(aws_lambda_invocation.install[0].input)).wakeUrl == "https://mock.lambda-url.eu-west-1.on.aws/0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL" &&
      jsondecode(nonsensitive(aws_lambda_invocation.install[0].input)).aggregateToAdmin == false &&
      aws_lambda_invocation.install[0].lifecycle_scope == "CRUD"
    )
    error_message = "The installer's input changed. events/installer.install.json is its sample."
  }
}

run "the_wake_path_is_not_printed" {
  command = plan

  assert {
    condition     = issensitive(terraform_data.wake_path[0].input) && issensitive(local.wake_path)
    error_message = "A plan must not print the secret path of the Function URL."
  }
}

run "without_wake" {
  variables {
    wake_enabled = false
  }

  assert {
    condition = (
      !contains(keys(aws_lambda_function.function), "wake") && length(aws_lambda_function_url.wake) == 0 &&
      length(aws_cloudformation_stack.wake_permission) == 0 && length(terraform_data.wake_path) == 0 && nonsensitive(output.wake_url) == ""
    )
    error_message = "wake_enabled = false must leave no trace of the Function URL."
  }

  assert {
    condition     = jsondecode(nonsensitive(aws_lambda_invocation.install[0].input)).wakeUrl == null
    error_message = "Without wake the installer must get a URL of null, so that it removes the webhook."
  }
}

run "without_installer" {
  variables {
    install = false
  }

  assert {
    condition     = length(aws_lambda_invocation.install) == 0 && length(aws_eks_access_entry.installer) == 0
    error_message = "install = false must leave out the access entry and the invocation."
  }
}

run "more_policies_for_the_node_role" {
  variables {
    node_role_additional_policies = { logs = "arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy" }
  }

  assert {
    condition     = { for name, a in aws_iam_role_policy_attachment.additional : name => a.policy_arn } == { logs = "arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy" }
    error_message = "The module's node role has the given policies."
  }

  assert {
    condition     = sort(keys(output.function_arns)) == tolist(["catalog", "installer", "interruption", "lifecycle", "planner", "wake"]) && sort(keys(output.queue_arns)) == tolist(["catalog", "claims", "interruption", "plan"]) && output.table_arn == "arn:aws:dynamodb:eu-west-1:111122223333:table/mock"
    error_message = "Policies and alarms of others name what the module makes by its ARN."
  }
}

run "moving_over_from_karpenter" {
  variables {
    create_node_role          = false
    node_role_arn             = "arn:aws:iam::111122223333:role/teams/KarpenterNodeRole-example"
    create_node_access_entry  = false
    additional_node_role_arns = ["arn:aws:iam::111122223333:role/gpu"]
  }

  assert {
    condition     = length(aws_iam_role.node) == 0 && aws_iam_instance_profile.node.role == "KarpenterNodeRole-example" && length(aws_eks_access_entry.node) == 0
    error_message = "An existing node role must be used by its name without the path, and nothing made beside it."
  }

  assert {
    condition = [
      for s in jsondecode(aws_iam_role_policy.function["lifecycle"].policy).Statement : s.Resource if s.Sid == "PassNodeRole"
    ] == [["arn:aws:iam::111122223333:role/teams/KarpenterNodeRole-example", "arn:aws:iam::111122223333:role/gpu"]]
    error_message = "PassRole must name the given roles and no other."
  }
}

run "functions_wake_each_other_for_as_long_as_they_need" {
  assert {
    condition     = sort(keys(aws_lambda_function_recursion_config.function)) == tolist(["catalog", "interruption", "lifecycle", "planner"]) && alltrue([for c in aws_lambda_function_recursion_config.function : c.recursive_loop == "Allow"])
    error_message = "Lambda stops a chain of about 16 invocations through SQS unless each function of it allows the loop."
  }

  assert {
    condition     = length(aws_cloudwatch_metric_alarm.recursion) == 0
    error_message = "Lambda stops no chain of functions that may loop, so nobody should pay for that alarm."
  }
}

run "a_region_without_loop_detection" {
  override_data {
    target = data.aws_region.current
    values = { id = "mx-central-1", name = "mx-central-1" }
  }

  assert {
    condition     = length(aws_lambda_function_recursion_config.function) == 0 && length(aws_cloudwatch_metric_alarm.recursion) == 4
    error_message = "Where Lambda has no loop detection nothing may call its API, and the alarm stays, for when Lambda gets it."
  }
}

run "a_region_without_function_urls" {
  override_data {
    target = data.aws_region.current
    values = { id = "ca-west-1", name = "ca-west-1" }
  }

  assert {
    condition = (
      !contains(keys(aws_lambda_function.function), "wake") && length(aws_lambda_function_url.wake) == 0 &&
      nonsensitive(output.wake_url) == "" && length(aws_cloudwatch_metric_alarm.wake_silent) == 0 &&
      jsondecode(nonsensitive(aws_lambda_invocation.install[0].input)).wakeUrl == null
    )
    error_message = "By default nothing may need a Function URL where Lambda has none: the apply would fail half way."
  }

  assert {
    condition     = aws_lambda_event_source_mapping.claims.tags != null && length(aws_lambda_function_recursion_config.function) == 4
    error_message = "The region lacks Function URLs alone."
  }
}

run "function_urls_by_choice" {
  variables {
    wake_enabled = true
  }
  override_data {
    target = data.aws_region.current
    values = { id = "ca-west-1", name = "ca-west-1" }
  }

  assert {
    condition     = length(aws_lambda_function_url.wake) == 1 && contains(keys(aws_lambda_function.function), "wake")
    error_message = "wake_enabled = true makes a Function URL in a region that gets them later than their documentation."
  }
}

run "govcloud_without_function_urls" {
  override_data {
    target = data.aws_partition.current
    values = { partition = "aws-us-gov" }
  }

  assert {
    condition     = length(aws_lambda_function_recursion_config.function) == 0 && length(aws_lambda_function_url.wake) == 0
    error_message = "AWS documents loop detection and Function URLs for commercial regions only."
  }

  assert {
    condition     = alltrue([for m in [aws_lambda_event_source_mapping.plan, aws_lambda_event_source_mapping.catalog, aws_lambda_event_source_mapping.claims, aws_lambda_event_source_mapping.interruption] : m.tags == null])
    error_message = "GovCloud has no tags of event source mappings."
  }
}

run "china_without_function_urls" {
  override_data {
    target = data.aws_partition.current
    values = { partition = "aws-cn" }
  }

  assert {
    condition     = length(aws_lambda_function_recursion_config.function) == 0 && length(aws_lambda_function_url.wake) == 0 && !contains(keys(aws_lambda_function.function), "wake")
    error_message = "China has no Function URLs."
  }
}

run "loops_allowed_by_choice" {
  variables {
    recursive_loop_allowed = true
  }
  override_data {
    target = data.aws_region.current
    values = { id = "ap-southeast-6", name = "ap-southeast-6" }
  }

  assert {
    condition     = length(aws_lambda_function_recursion_config.function) == 4
    error_message = "recursive_loop_allowed = true calls the API in a region that gets it later than its documentation."
  }
}

run "loops_refused_by_choice" {
  variables {
    recursive_loop_allowed = false
  }

  assert {
    condition     = length(aws_lambda_function_recursion_config.function) == 0 && sort(keys(aws_cloudwatch_metric_alarm.recursion)) == tolist(["catalog", "interruption", "lifecycle", "planner"]) && alltrue([for a in aws_cloudwatch_metric_alarm.recursion : a.metric_name == "RecursiveInvocationsDropped"])
    error_message = "recursive_loop_allowed = false must call nothing, and the alarm matters all the more."
  }
}

run "metrics_and_alarms" {
  variables {
    alarm_topic_arn = "arn:aws:sns:eu-west-1:111122223333:pager"
    alarms          = { nodes_launched_per_hour = 0, node_count = 100, cluster_limit_percent = 90 }
    dashboard       = true
  }

  assert {
    condition     = length(output.metric_names) <= 40 && length(distinct(output.metric_names)) == length(output.metric_names)
    error_message = "At most 40 metrics, each once: CloudWatch charges for each."
  }

  assert {
    condition = output.metric_names == sort([
      "PlansUnfinished", "PendingPods", "UnschedulablePods", "UnusedLaunches", "ExpectedPodsCame", "ExpectedPodsMissing", "ExpectedPodsUnusedNodeSeconds", "WebhookCalls", "PlansWithoutNewPods", "ClaimsCreated", "NodesLaunched", "LaunchFailures",
      "InsufficientCapacity", "NodesRegistered", "NodesInitialized", "NodesTerminated", "Evictions", "ChurnStopped", "AmiCanariesFailed", "NodeCount", "HourlySpendDollars", "ClusterLimitUsedPercent",
      "BudgetsExceeded",
      "Interruptions", "InterruptionsLost", "OrphansCollected", "ReconcileErrors", "CatalogAgeSeconds", "LaunchLatencyMilliseconds",
      "RegistrationLatencyMilliseconds",
    ])
    error_message = "The metric names are a contract with shared/adapters/telemetry."
  }

  assert {
    condition = { for name, a in aws_cloudwatch_metric_alarm.metric : name => "${a.metric_name} > ${a.threshold} for ${a.evaluation_periods * a.period} s" } == {
      launch-failures        = "LaunchFailures > 0 for 900 s"
      unschedulable-pods     = "UnschedulablePods > 0 for 1800 s"
      unused-launches        = "UnusedLaunches > 0 for 300 s"
      plans-without-new-pods = "PlansWithoutNewPods > 1000 for 3600 s"
      catalog-age            = "CatalogAgeSeconds > 3600 for 300 s"
      interruptions-lost     = "InterruptionsLost > 0 for 300 s"
      churn                  = "ChurnStopped > 0 for 300 s"
      ami-canary             = "AmiCanariesFailed > 0 for 600 s"
      node-count             = "NodeCount > 100 for 60 s"
      hourly-spend           = "HourlySpendDollars > 50 for 60 s"
      cluster-limit          = "ClusterLimitUsedPercent > 90 for 60 s"
    }
    error_message = "Each alarm has its metric. A threshold of zero must leave out its alarm, and only that; most clusters have no budget, so its alarm is created on request."
  }

  assert {
    condition = alltrue([
      for a in aws_cloudwatch_metric_alarm.metric :
      a.dimensions == tomap({ Cluster = "example" }) && a.comparison_operator == "GreaterThanThreshold" && a.treat_missing_data == "notBreaching"
    ])
    error_message = "What should not be is published only while it is; silence must be no alarm."
  }

  assert {
    condition     = aws_lambda_function.function["planner"].environment[0].variables["NODELESS_COST_LABELS"] == "app.kubernetes.io/name"
    error_message = "Costs are recorded by the name of the application."
  }

  assert {
    condition = (
      one(aws_cloudwatch_metric_alarm.stale).treat_missing_data == "breaching" &&
      { for q in one(aws_cloudwatch_metric_alarm.stale).metric_query : q.id => try(q.metric[0].metric_name, q.expression) } ==
      { both = "plans * sweeps", plans = "PendingPods", sweeps = "NodeCount" } &&
      alltrue([for q in one(aws_cloudwatch_metric_alarm.stale).metric_query : q.metric[0].stat == "SampleCount" if length(q.metric) > 0])
    )
    error_message = "One alarm for plans and sweeps: it must fire when either stops, and when nothing is published at all."
  }

  assert {
    condition = (
      one(aws_cloudwatch_metric_alarm.wake_silent).treat_missing_data == "notBreaching" &&
      { for q in one(aws_cloudwatch_metric_alarm.wake_silent).metric_query : q.id => q.metric[0].metric_name if length(q.metric) > 0 } ==
      { waiting = "PendingPods", calls = "WebhookCalls" } &&
      alltrue([for q in one(aws_cloudwatch_metric_alarm.wake_silent).metric_query : !strcontains(coalesce(q.expression, "-"), "FILL")])
    )
    error_message = "The alarm must not depend on what CloudWatch makes of a metric that never had data: both metrics are the planner's."
  }

  assert {
    condition = alltrue([
      for a in concat(aws_cloudwatch_metric_alarm.wake_silent, aws_cloudwatch_metric_alarm.errors, values(aws_cloudwatch_metric_alarm.dead_letters), values(aws_cloudwatch_metric_alarm.metric), aws_cloudwatch_metric_alarm.stale, values(aws_cloudwatch_metric_alarm.recursion), aws_cloudwatch_metric_alarm.throttles) :
      tolist(a.alarm_actions) == tolist(["arn:aws:sns:eu-west-1:111122223333:pager"]) && length(a.alarm_description) > 40
    ])
    error_message = "Every alarm must notify the topic and describe what to check."
  }

  assert {
    condition = sort(flatten([
      for w in jsondecode(aws_cloudwatch_dashboard.nodeless[0].dashboard_body).widgets : [
        for m in w.properties.metrics : m[1] if m[0] == "nodeless"
      ] if w.type == "metric"
    ])) == output.metric_names
    error_message = "The dashboard must show each metric once."
  }

  assert {
    condition = alltrue([
      for w in jsondecode(aws_cloudwatch_dashboard.nodeless[0].dashboard_body).widgets :
      startswith(w.properties.query, "SOURCE '/aws/lambda/nodeless-example-") && !strcontains(w.properties.query, "cluster =") if w.type == "log"
    ])
    error_message = "Every query must name its log groups; functions of one cluster log no lines of others."
  }

  assert {
    condition = alltrue([
      for w in jsondecode(aws_cloudwatch_dashboard.nodeless[0].dashboard_body).widgets : alltrue([
        for m in w.properties.metrics : length(m) == 5 && m[2] == "Cluster" && m[3] == "example" if m[0] == "nodeless"
      ]) if w.type == "metric"
    ])
    error_message = "Every metric of ours on the dashboard must have the one dimension Cluster."
  }
}

run "alarms_about_work_that_waits" {
  assert {
    condition = (
      { for q in one(aws_cloudwatch_metric_alarm.throttles).metric_query : q.id => "${q.metric[0].metric_name} of ${q.metric[0].dimensions.FunctionName}" if length(q.metric) > 0 } ==
      { for name in ["planner", "lifecycle", "interruption"] : name => "Throttles of nodeless-example-${name}" }
    )
    error_message = "Invocations that Lambda refuses are no errors, and delay launches, drains and the handling of interruptions."
  }

  assert {
    condition = (
      { for q in one(aws_cloudwatch_metric_alarm.errors).metric_query : q.id => "${q.metric[0].metric_name} of ${q.metric[0].dimensions.FunctionName}" if length(q.metric) > 0 } ==
      { for name in ["planner", "lifecycle"] : name => "Errors of nodeless-example-${name}" }
    )
    error_message = "What the other functions fail to do is reported by dead letters, the age of the catalog, and the alarm wake-silent."
  }
}

run "alarms_off_by_choice" {
  variables {
    alarms = { throttles = false, launch_failures = false, unschedulable_pods = false, unused_launches = false, churn = false, ami_canary = false, node_count = 0, hourly_spend_dollars = 0, cluster_limit_percent = 0, nodes_launched_per_hour = 0, plans_without_new_pods_per_hour = 0 }
  }

  assert {
    condition     = length(aws_cloudwatch_metric_alarm.throttles) == 0 && sort(keys(aws_cloudwatch_metric_alarm.metric)) == tolist(["catalog-age", "interruptions-lost"]) && length(aws_cloudwatch_metric_alarm.stale) == 1
    error_message = "Each alarm can be turned off by itself."
  }
}

run "number_of_alarms" {
  assert {
    condition = length(concat(
      aws_cloudwatch_metric_alarm.errors, values(aws_cloudwatch_metric_alarm.recursion), values(aws_cloudwatch_metric_alarm.dead_letters),
      values(aws_cloudwatch_metric_alarm.metric), aws_cloudwatch_metric_alarm.stale, aws_cloudwatch_metric_alarm.wake_silent,
      aws_cloudwatch_metric_alarm.throttles,
    )) == 18
    error_message = "The number of alarms changed: docs/benchmarks/cost.py has it, and their metrics, for the price of monitoring."
  }
}

run "without_dashboard" {
  assert {
    condition     = length(aws_cloudwatch_dashboard.nodeless) == 0 && output.dashboard_name == null
    error_message = "A dashboard costs more than everything else of an idle cluster, so it is created on request."
  }
}

run "long_names_stay_apart_and_fit" {
  variables {
    cluster_name = "a-cluster-name-of-the-greatest-length-that-eks-allows-which-is-one-hundred-characters-and-not-more-a"
  }

  assert {
    condition = alltrue(concat(
      [for f in aws_lambda_function.function : length(f.function_name) <= 64],
      [for r in aws_iam_role.function : length(r.name) <= 64],
      [for q in [aws_sqs_queue.plan_dead_letters, aws_sqs_queue.interruption_dead_letters] : length(q.name) <= 80],
      [for r in aws_cloudwatch_event_rule.interruption : length(r.name) <= 64],
      [length(aws_iam_role.node[0].name) <= 64],
    ))
    error_message = "A name is longer than AWS allows."
  }

  assert {
    condition     = strcontains(aws_lambda_function.function["planner"].function_name, substr(sha256("nodeless-${var.cluster_name}"), 0, 6))
    error_message = "A shortened name must end in a hash of the whole."
  }
}

run "extra_environment_and_size" {
  variables {
    architecture      = "x86_64"
    extra_environment = { AWS_ENDPOINT_URL_EC2 = "http://127.0.0.1:1" }
    functions         = { planner = { timeout = 20 }, wake = { reserved_concurrency = -1 } }
  }

  assert {
    condition     = alltrue([for f in aws_lambda_function.function : nonsensitive(f.environment[0].variables).AWS_ENDPOINT_URL_EC2 == "http://127.0.0.1:1"])
    error_message = "extra_environment must reach every function."
  }

  assert {
    condition     = aws_lambda_function.function["planner"].timeout == 20 && aws_sqs_queue.plan.visibility_timeout_seconds == 25 && aws_lambda_function.function["planner"].memory_size == 1024
    error_message = "A planner timeout must carry over to its queue, and leave the other sizes alone."
  }
}

run "nodes_stay_on_destroy_unless_asked" {
  assert {
    condition     = length(aws_lambda_invocation.remove_nodes) == 0
    error_message = "Moving to Karpenter destroys nodeless and keeps the nodes."
  }
}

run "nodes_go_on_destroy_where_asked" {
  variables {
    remove_nodes_on_destroy = true
  }

  assert {
    condition     = jsondecode(one(aws_lambda_invocation.remove_nodes).input) == { action = "removeNodes", cluster = "example" } && one(aws_lambda_invocation.remove_nodes).lifecycle_scope == "CRUD" && aws_lambda_function.function["installer"].timeout == 900
    error_message = "The installer must be asked to remove nodes on destroy, and have the time for it."
  }
}

run "the_first_catalog_must_succeed" {
  assert {
    condition     = jsondecode(one(aws_lambda_invocation.catalog).input).required
    error_message = "An installation without a catalog must fail."
  }
}

run "nothing_is_invoked_without_installation" {
  variables {
    install                 = false
    remove_nodes_on_destroy = true
  }

  assert {
    condition     = length(aws_lambda_invocation.install) + length(aws_lambda_invocation.catalog) + length(aws_lambda_invocation.remove_nodes) == 0
    error_message = "install = false must leave the cluster alone."
  }

  assert {
    condition     = !contains(keys(aws_lambda_function.function), "installer") && !contains(keys(aws_iam_role.function), "installer") && length(aws_eks_access_entry.installer) == 0
    error_message = "install = false deploys no installer, and no role of it."
  }
}

run "wake_by_an_endpoint_of_ones_own" {
  variables {
    wake_endpoint = "https://wake.example.internal/"
  }

  assert {
    condition     = startswith(jsondecode(nonsensitive(one(aws_lambda_invocation.install).input)).wakeUrl, "https://wake.example.internal/0123") && jsondecode(nonsensitive(one(aws_lambda_invocation.install).input)).ownEndpoint
    error_message = "The webhook must be registered with the endpoint and the secret path."
  }
}

run "wake_by_the_function_url_whatever_the_egress_mode" {
  variables {
    wake_endpoint = "function-url"
  }

  assert {
    condition     = startswith(jsondecode(nonsensitive(one(aws_lambda_invocation.install).input)).wakeUrl, "https://mock.lambda-url.") && jsondecode(nonsensitive(one(aws_lambda_invocation.install).input)).ownEndpoint
    error_message = "The Function URL must be registered."
  }
}

run "functions_in_a_vpc_reach_the_cluster" {
  variables {
    vpc_config = { subnet_ids = ["subnet-1"], security_group_ids = ["sg-1", "sg-2"], cluster_security_group_id = "sg-cluster" }
  }

  assert {
    condition     = [for r in aws_vpc_security_group_ingress_rule.functions : [r.security_group_id, r.referenced_security_group_id, r.from_port, r.to_port]] == [["sg-cluster", "sg-1", 443, 443], ["sg-cluster", "sg-2", 443, 443]]
    error_message = "Each group of the functions must be let in at port 443."
  }

  assert {
    condition     = length(aws_iam_role_policy_attachment.vpc) == length(aws_lambda_function.function) - 1
    error_message = "All functions but wake need network interfaces."
  }
}

run "an_endpoint_that_lambda_cannot_reach_is_reported" {
  command = plan

  override_data {
    target = data.aws_eks_cluster.this
    values = { vpc_config = [{ endpoint_public_access = true, public_access_cidrs = ["198.51.100.0/24"] }] }
  }

  expect_failures = [check.cluster_fits]
}

run "underscores_in_the_clusters_name" {
  variables {
    cluster_name = "a_b"
  }

  assert {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9-]*$", one(aws_cloudformation_stack.wake_permission).name)) && one(aws_cloudformation_stack.wake_permission).name != "nodeless-a-b-wake-permission"
    error_message = "Names of stacks have no underscores, and those of a_b and a-b must differ."
  }
}

run "china" {
  override_data {
    target = data.aws_partition.current
    values = { partition = "aws-cn" }
  }

  assert {
    condition     = jsondecode(aws_iam_role.node[0].assume_role_policy).Statement[0].Principal.Service == "ec2.amazonaws.com.cn"
    error_message = "EC2 has a service principal of its own in China."
  }

  assert {
    condition     = alltrue([for arn in flatten([for name, policy in aws_iam_role_policy.function : [for s in jsondecode(policy.policy).Statement : flatten([s.Resource])]]) : arn == "*" || startswith(arn, "arn:aws-cn:") || startswith(arn, "arn:aws:") && strcontains(arn, "mock")])
    error_message = "Policies must name resources of the partition."
  }
}

run "european_sovereign_cloud" {
  override_data {
    target = data.aws_partition.current
    values = { partition = "aws-eusc" }
  }

  assert {
    condition     = jsondecode(aws_iam_role.node[0].assume_role_policy).Statement[0].Principal.Service == "ec2.amazonaws.com"
    error_message = "Only China has a service principal of its own for EC2."
  }

  assert {
    condition     = alltrue([for arn in flatten([for name, policy in aws_iam_role_policy.function : [for s in jsondecode(policy.policy).Statement : flatten([s.Resource])]]) : arn == "*" || startswith(arn, "arn:aws-eusc:") || startswith(arn, "arn:aws:") && strcontains(arn, "mock")])
    error_message = "Policies must name resources of the partition."
  }
}

run "govcloud" {
  override_data {
    target = data.aws_partition.current
    values = { partition = "aws-us-gov" }
  }

  assert {
    condition     = jsondecode(aws_iam_role.node[0].assume_role_policy).Statement[0].Principal.Service == "ec2.amazonaws.com"
    error_message = "Only China has a service principal of its own for EC2."
  }

  assert {
    condition     = alltrue([for arn in flatten([for name, policy in aws_iam_role_policy.function : [for s in jsondecode(policy.policy).Statement : flatten([s.Resource])]]) : arn == "*" || startswith(arn, "arn:aws-us-gov:") || startswith(arn, "arn:aws:") && strcontains(arn, "mock")])
    error_message = "Policies must name resources of the partition."
  }

  assert {
    condition = alltrue([for arn in concat(
      [for a in aws_iam_role_policy_attachment.node : a.policy_arn],
      [for s in jsondecode(aws_iam_role_policy.function["installer"].policy).Statement : s.Condition.ArnEquals["eks:policyArn"] if strcontains(s.Sid, "ClusterAdmin")],
    ) : startswith(arn, "arn:aws-us-gov:")])
    error_message = "AWS's own policies are those of the partition."
  }
}

run "ipv4" {
  assert {
    condition     = contains(keys(aws_iam_role_policy_attachment.node), "AmazonEKS_CNI_Policy") && length(aws_iam_role_policy.node) == 0
    error_message = "Nodes of an IPv4 cluster have AWS's policy for the VPC CNI."
  }
}

run "ipv6" {
  variables {
    ip_family = "ipv6"
  }
  override_data {
    target = data.aws_eks_cluster.this
    values = {
      vpc_config                = [{ endpoint_public_access = true, public_access_cidrs = ["0.0.0.0/0"] }]
      kubernetes_network_config = [{ ip_family = "ipv6" }]
    }
  }

  assert {
    condition = (
      flatten([for s in jsondecode(one(aws_iam_role_policy.node).policy).Statement : s.Action]) ==
      ["ec2:AssignIpv6Addresses", "ec2:DescribeInstances", "ec2:DescribeInstanceTypes", "ec2:DescribeNetworkInterfaces", "ec2:DescribeTags", "ec2:CreateTags"] &&
      jsondecode(one(aws_iam_role_policy.node).policy).Statement[1].Resource == "arn:aws:ec2:*:*:network-interface/*"
    )
    error_message = "Without ec2:AssignIpv6Addresses the VPC CNI gives the pods of an IPv6 cluster no address."
  }

  assert {
    condition     = sort(keys(aws_iam_role_policy_attachment.node)) == tolist(["AmazonEC2ContainerRegistryPullOnly", "AmazonEKSWorkerNodePolicy", "AmazonSSMManagedInstanceCore"])
    error_message = "AWS documents the permissions for IPv6 instead of AmazonEKS_CNI_Policy."
  }
}

run "a_cluster_of_another_ip_family_is_reported" {
  command = plan

  override_data {
    target = data.aws_eks_cluster.this
    values = {
      vpc_config                = [{ endpoint_public_access = true, public_access_cidrs = ["0.0.0.0/0"] }]
      kubernetes_network_config = [{ ip_family = "ipv6" }]
    }
  }

  expect_failures = [check.cluster_fits]
}

run "windows_nodes" {
  variables {
    windows_node_role_arns = ["arn:aws:iam::111122223333:role/windows"]
  }

  assert {
    condition     = [for e in aws_eks_access_entry.windows_node : [e.principal_arn, e.type]] == [["arn:aws:iam::111122223333:role/windows", "EC2_WINDOWS"]]
    error_message = "Windows nodes join by an access entry of their own type."
  }

  assert {
    condition     = contains([for s in jsondecode(aws_iam_role_policy.function["lifecycle"].policy).Statement : s if try(s.Sid, "") == "PassNodeRole"][0].Resource, "arn:aws:iam::111122223333:role/windows")
    error_message = "Lifecycle must be allowed to pass the role of Windows nodes."
  }
}

run "zips_in_s3" {
  variables {
    artifacts_directory = null
    artifacts_s3        = { bucket = "releases", prefix = "nodeless/v1/" }
  }
  override_data {
    target = data.aws_s3_object.checksums
    values = { body = "{\"planner\":\"cGxhbm5lcg==\",\"lifecycle\":\"a\",\"interruption\":\"a\",\"catalog\":\"a\",\"wake\":\"a\",\"installer\":\"a\"}" }
  }

  assert {
    condition     = aws_lambda_function.function["planner"].s3_bucket == "releases" && aws_lambda_function.function["planner"].s3_key == "nodeless/v1/planner/bootstrap.zip" && aws_lambda_function.function["planner"].filename == null
    error_message = "A function takes its zip from the place in S3."
  }

  assert {
    condition     = aws_lambda_function.function["planner"].source_code_hash == "cGxhbm5lcg=="
    error_message = "A function is updated when the checksum beside its zip changes."
  }
}

run "without_customer_managed_keys" {
  assert {
    condition     = alltrue([for p in aws_iam_role_policy.function : !strcontains(p.policy, "kms:")]) && !aws_dynamodb_table.state[0].server_side_encryption[0].enabled
    error_message = "Keys of AWS need no right."
  }
}

run "customer_managed_keys" {
  variables {
    kms_key_arns = {
      table       = "arn:aws:kms:eu-west-1:111122223333:key/table"
      queues      = "arn:aws:kms:eu-west-1:111122223333:key/queues"
      logs        = "arn:aws:kms:eu-west-1:111122223333:key/logs"
      environment = "arn:aws:kms:eu-west-1:111122223333:key/environment"
    }
  }

  assert {
    condition = (
      aws_dynamodb_table.state[0].server_side_encryption[0].enabled && aws_dynamodb_table.state[0].server_side_encryption[0].kms_key_arn == "arn:aws:kms:eu-west-1:111122223333:key/table" &&
      alltrue([for f in aws_lambda_function.function : f.kms_key_arn == "arn:aws:kms:eu-west-1:111122223333:key/environment"]) &&
      alltrue([for g in aws_cloudwatch_log_group.function : g.kms_key_id == "arn:aws:kms:eu-west-1:111122223333:key/logs"])
    )
    error_message = "Table, environment and logs must be encrypted with the given keys."
  }

  # The provider refuses sqs_managed_sse_enabled beside a key.
  assert {
    condition = alltrue([
      for q in [
        aws_sqs_queue.plan, aws_sqs_queue.plan_dead_letters, aws_sqs_queue.claims, aws_sqs_queue.claims_dead_letters,
        aws_sqs_queue.interruption, aws_sqs_queue.interruption_dead_letters, aws_sqs_queue.catalog, aws_sqs_queue.catalog_dead_letters,
      ] : q.kms_master_key_id == "arn:aws:kms:eu-west-1:111122223333:key/queues"
    ])
    error_message = "Every queue must be encrypted with the given key."
  }

  assert {
    condition = jsonencode({
      for name, p in aws_iam_role_policy.function : name => {
        for s in jsondecode(p.policy).Statement : s.Sid => [s.Action, s.Resource] if strcontains(jsonencode(s.Action), "kms:")
      }
      }) == jsonencode(merge(
      {
        for name in ["planner", "lifecycle", "interruption", "catalog"] : name => {
          UseTableKey = ["kms:Decrypt", "arn:aws:kms:eu-west-1:111122223333:key/table"]
          UseQueueKey = [["kms:Decrypt", "kms:GenerateDataKey"], "arn:aws:kms:eu-west-1:111122223333:key/queues"]
        }
      },
      { wake = { UseQueueKey = [["kms:Decrypt", "kms:GenerateDataKey"], "arn:aws:kms:eu-west-1:111122223333:key/queues"] }, installer = {} },
    ))
    error_message = "The roles need the keys of the table and the queues that their functions use, and no other right on a key."
  }

  assert {
    condition = alltrue(flatten([
      for p in aws_iam_role_policy.function : [
        for s in jsondecode(p.policy).Statement : (
          s.Sid == "UseTableKey" ?
          jsonencode(s.Condition) == jsonencode({ StringEquals = { "kms:EncryptionContext:aws:dynamodb:tableName" = "nodeless-example", "kms:ViaService" = ["dynamodb.eu-west-1.amazonaws.com"] } }) :
          s.Condition.StringEquals["kms:ViaService"] == ["sqs.eu-west-1.amazonaws.com"]
        ) if strcontains(jsonencode(s.Action), "kms:")
      ]
    ]))
    error_message = "Functions may use the keys through DynamoDB for this table, and through SQS, and not by themselves."
  }
}

run "keys_of_a_partition_with_another_suffix" {
  variables {
    kms_key_arns = { table = "arn:aws-cn:kms:cn-north-1:111122223333:key/table" }
  }
  override_data {
    target = data.aws_partition.current
    values = { partition = "aws-cn", dns_suffix = "amazonaws.com.cn" }
  }

  assert {
    condition = one([
      for s in jsondecode(aws_iam_role_policy.function["planner"].policy).Statement : jsonencode(s.Condition.StringEquals["kms:ViaService"]) if s.Sid == "UseTableKey"
    ]) == jsonencode(["dynamodb.eu-west-1.amazonaws.com", "dynamodb.eu-west-1.amazonaws.com.cn"])
    error_message = "The name of a service may end in amazonaws.com or in the suffix of the partition."
  }
}

run "without_a_weekly_report" {
  assert {
    condition = (
      length(aws_cloudwatch_event_target.report) == 0 && !contains(keys(aws_cloudwatch_event_rule.schedule), "report") &&
      alltrue([for p in aws_iam_role_policy.function : !strcontains(p.policy, "sns:")])
    )
    error_message = "Without a topic there is no schedule and no right."
  }
}

run "weekly_report" {
  variables {
    weekly_report = { topic_arn = "arn:aws:sns:eu-central-1:111122223333:costs" }
  }

  assert {
    condition = (
      aws_cloudwatch_event_rule.schedule["report"].schedule_expression == "cron(0 7 ? * MON *)" &&
      jsondecode(replace(aws_cloudwatch_event_target.report[0].input_transformer[0].input_template, "<at>", "\"x\"")) == { kind = "report", at = "x" }
    )
    error_message = "The message is not what the catalog function reads."
  }

  assert {
    condition     = aws_cloudwatch_event_target.report[0].sqs_target[0].message_group_id == "example-report" && aws_cloudwatch_event_target.catalog.sqs_target[0].message_group_id == "example"
    error_message = "A report that fails must hold up no refresh."
  }

  assert {
    condition     = aws_lambda_function.function["catalog"].environment[0].variables["NODELESS_REPORT_TOPIC_ARN"] == "arn:aws:sns:eu-central-1:111122223333:costs"
    error_message = "The function must know the topic."
  }

  assert {
    condition = { for name, p in aws_iam_role_policy.function : name => [for s in jsondecode(p.policy).Statement : [s.Action, s.Resource] if anytrue([for a in flatten([s.Action]) : startswith(a, "sns:") || startswith(a, "kms:")])] } == {
      planner = [], lifecycle = [], interruption = [], wake = [], installer = []
      catalog = [["sns:Publish", "arn:aws:sns:eu-central-1:111122223333:costs"]]
    }
    error_message = "Only catalog may publish, only to this topic, and it needs no key."
  }
}

run "weekly_report_to_an_encrypted_topic" {
  variables {
    weekly_report = { topic_arn = "arn:aws:sns:eu-central-1:111122223333:costs", kms_key_arn = "arn:aws:kms:eu-central-1:111122223333:key/topic" }
  }

  assert {
    condition = [for s in jsondecode(aws_iam_role_policy.function["catalog"].policy).Statement : s if s.Sid == "UseTopicKey"] == [{
      Sid       = "UseTopicKey"
      Effect    = "Allow"
      Action    = ["kms:Decrypt", "kms:GenerateDataKey"]
      Resource  = "arn:aws:kms:eu-central-1:111122223333:key/topic"
      Condition = { StringEquals = { "kms:ViaService" = ["sns.eu-central-1.amazonaws.com"] } }
    }]
    error_message = "Catalog may use the key of the topic through SNS, and not by itself."
  }
}

run "rules_of_an_organization_for_roles" {
  variables {
    iam_path                 = "/teams/platform/"
    permissions_boundary_arn = "arn:aws:iam::111122223333:policy/boundary"
  }

  assert {
    condition = alltrue([
      for r in concat(values(aws_iam_role.function), aws_iam_role.node) : r.path == "/teams/platform/" && r.permissions_boundary == "arn:aws:iam::111122223333:policy/boundary"
    ]) && aws_iam_instance_profile.node.path == "/teams/platform/"
    error_message = "Every role must have the path and the permissions boundary."
  }

  assert {
    condition     = aws_lambda_function.function["catalog"].environment[0].variables.NODELESS_IAM_PATH == "/teams/platform/"
    error_message = "The catalog function must create instance profiles below the path."
  }
}
