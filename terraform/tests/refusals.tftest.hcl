# Inputs that the module refuses at plan time.

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
}

variables {
  cluster_name = "example"
}

run "cluster_name" {
  command = plan
  variables {
    cluster_name = "-starts-with-a-dash"
  }
  expect_failures = [var.cluster_name]
}

run "commitments_of_an_isolated_vpc" {
  command = plan
  variables {
    commitments  = true
    isolated_vpc = true
  }
  expect_failures = [var.commitments]
}

run "missing_artifacts" {
  command = plan
  variables {
    artifacts_directory = "tests"
  }
  expect_failures = [var.artifacts_directory]
}

run "architecture" {
  command = plan
  variables {
    architecture = "riscv64"
  }
  expect_failures = [var.architecture]
}

run "a_planner_slower_than_the_promise" {
  command = plan
  variables {
    functions = { planner = { timeout = 60 } }
  }
  expect_failures = [var.functions]
}

run "installer_timeout" {
  command = plan
  variables {
    functions = { installer = { timeout = 120 } }
  }
  expect_failures = [var.functions]
}

run "a_lifecycle_that_could_not_await_create_fleet" {
  command = plan
  variables {
    functions = { lifecycle = { timeout = 60 } }
  }
  expect_failures = [var.functions]
}

run "our_own_environment" {
  command = plan
  variables {
    extra_environment = { NODELESS_TABLE = "elsewhere" }
  }
  expect_failures = [var.extra_environment]
}

run "karpenters_own_names_in_the_environment" {
  command = plan
  variables {
    extra_environment = { BATCH_MAX_DURATION = "20s" }
  }
  expect_failures = [var.extra_environment]
}

run "a_gate_that_is_always_on" {
  command = plan
  variables {
    feature_gates = { static_capacity = false }
  }
  expect_failures = [var.feature_gates]
}

run "a_batching_window_without_a_unit" {
  command = plan
  variables {
    batch_idle_duration = "1"
  }
  expect_failures = [var.batch_idle_duration]
}

run "a_batching_window_of_minutes" {
  command = plan
  variables {
    batch_max_duration = "31s"
    functions          = { planner = { timeout = 50 } }
  }
  expect_failures = [var.batch_max_duration]
}

run "a_batching_window_that_leaves_no_time_to_plan" {
  command = plan
  variables {
    batch_max_duration = "25s"
    functions          = { planner = { timeout = 30 } }
  }
  expect_failures = [var.batch_max_duration]
}

run "half_a_network_interface" {
  command = plan
  variables {
    reserved_enis = 0.5
  }
  expect_failures = [var.reserved_enis]
}

run "preference_policy" {
  command = plan
  variables {
    preference_policy = "ignore"
  }
  expect_failures = [var.preference_policy]
}

run "a_scheduler_config_that_is_no_yaml" {
  command = plan
  variables {
    scheduler_config = "podTopologySpread: {"
  }
  expect_failures = [var.scheduler_config]
}

run "a_scheduler_config_with_an_unknown_field" {
  command = plan
  variables {
    scheduler_config = jsonencode({ podTopologySpread = { defaultingType = "List" } })
  }
  expect_failures = [var.scheduler_config]
}

run "a_default_constraint_with_a_selector" {
  command = plan
  variables {
    scheduler_config = jsonencode({ podTopologySpread = { defaultConstraints = [{
      maxSkew = 1, topologyKey = "zone", whenUnsatisfiable = "DoNotSchedule", labelSelector = { matchLabels = { app = "web" } }
    }] } })
  }
  expect_failures = [var.scheduler_config]
}

run "the_same_default_constraint_twice" {
  command = plan
  variables {
    scheduler_config = jsonencode({ podTopologySpread = { defaultConstraints = [
      { maxSkew = 1, topologyKey = "zone", whenUnsatisfiable = "DoNotSchedule" },
      { maxSkew = 2, topologyKey = "zone", whenUnsatisfiable = "DoNotSchedule" },
    ] } })
  }
  expect_failures = [var.scheduler_config]
}

run "min_values_policy" {
  command = plan
  variables {
    min_values_policy = "Best-Effort"
  }
  expect_failures = [var.min_values_policy]
}

run "memory_in_per_cent" {
  command = plan
  variables {
    vm_memory_overhead_percent = 7.5
  }
  expect_failures = [var.vm_memory_overhead_percent]
}

run "retention" {
  command = plan
  variables {
    log_retention_days = 8
  }
  expect_failures = [var.log_retention_days]
}

run "concurrency" {
  command = plan
  variables {
    claims_concurrency = 1
  }
  expect_failures = [var.claims_concurrency]
}

run "schedules" {
  command = plan
  variables {
    schedules = { heartbeat = "every minute" }
  }
  expect_failures = [var.schedules]
}

run "node_role" {
  command = plan
  variables {
    create_node_role = false
    node_role_arn    = "KarpenterNodeRole-example"
  }
  expect_failures = [var.node_role_arn]
}

run "a_node_role_that_nothing_names" {
  command = plan
  variables {
    create_node_role = false
  }
  expect_failures = [var.node_role_arn]
}

run "a_role_of_two_kinds_of_nodes" {
  command = plan
  variables {
    additional_node_role_arns = ["arn:aws:iam::111122223333:role/both"]
    windows_node_role_arns    = ["arn:aws:iam::111122223333:role/both"]
  }
  expect_failures = [var.windows_node_role_arns]
}

run "no_place_for_the_zips" {
  command = plan
  variables {
    artifacts_directory = null
  }
  expect_failures = [var.artifacts_directory]
}

run "two_places_for_the_zips" {
  command = plan
  variables {
    artifacts_s3 = { bucket = "releases" }
  }
  # The second place has no checksums here, which would be found only later.
  override_data {
    target = data.aws_s3_object.checksums
    values = { body = "{\"planner\":\"a\",\"lifecycle\":\"a\",\"interruption\":\"a\",\"catalog\":\"a\",\"wake\":\"a\",\"installer\":\"a\"}" }
  }
  expect_failures = [var.artifacts_directory]
}

run "a_prefix_that_is_no_folder" {
  command = plan
  variables {
    artifacts_directory = null
    artifacts_s3        = { bucket = "releases", prefix = "v1" }
  }
  override_data {
    target = data.aws_s3_object.checksums
    values = { body = "{\"planner\":\"a\",\"lifecycle\":\"a\",\"interruption\":\"a\",\"catalog\":\"a\",\"wake\":\"a\",\"installer\":\"a\"}" }
  }
  expect_failures = [var.artifacts_s3]
}

run "checksums_without_a_function" {
  command = plan
  variables {
    artifacts_directory = null
    artifacts_s3        = { bucket = "releases", prefix = "v1/" }
  }
  override_data {
    target = data.aws_s3_object.checksums
    values = { body = "{\"planner\":\"a\"}" }
  }
  expect_failures = [data.aws_s3_object.checksums]
}

run "an_ip_family_that_eks_does_not_have" {
  command = plan
  variables {
    ip_family = "dualstack"
  }
  expect_failures = [var.ip_family]
}

run "an_alias_of_a_key" {
  command = plan
  variables {
    kms_key_arns = { queues = "arn:aws:kms:eu-west-1:111122223333:alias/queues" }
  }
  expect_failures = [var.kms_key_arns]
}

run "a_path_without_slashes" {
  command = plan
  variables {
    iam_path = "teams"
  }
  expect_failures = [var.iam_path]
}

run "a_boundary_that_is_no_policy" {
  command = plan
  variables {
    permissions_boundary_arn = "boundary"
  }
  expect_failures = [var.permissions_boundary_arn]
}

run "less_concurrency_than_the_queue_starts" {
  command = plan
  variables {
    functions = { lifecycle = { reserved_concurrency = 5 } }
  }
  expect_failures = [var.functions]
}

run "a_report_to_a_topic_without_email" {
  command = plan
  variables {
    weekly_report = { topic_arn = "arn:aws:sns:eu-west-1:111122223333:costs.fifo" }
  }
  expect_failures = [var.weekly_report]
}

run "a_report_to_an_address" {
  command = plan
  variables {
    weekly_report = { topic_arn = "costs@example.com" }
  }
  expect_failures = [var.weekly_report]
}

run "a_report_with_an_alias_of_a_key" {
  command = plan
  variables {
    weekly_report = { topic_arn = "arn:aws:sns:eu-west-1:111122223333:costs", kms_key_arn = "alias/aws/sns" }
  }
  expect_failures = [var.weekly_report]
}
