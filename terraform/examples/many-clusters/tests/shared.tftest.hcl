# The module of the first cluster and those of two others, with a mocked provider.

mock_provider "aws" {
  mock_data "aws_eks_cluster" {
    defaults = { vpc_config = [{ endpoint_public_access = true, public_access_cidrs = ["0.0.0.0/0"] }] }
  }
  mock_data "aws_caller_identity" {
    defaults = { account_id = "111122223333" }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_region" {
    defaults = { id = "eu-west-1", name = "eu-west-1" }
  }
  mock_data "aws_secretsmanager_random_password" {
    defaults = { random_password = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL" }
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
    defaults = { arn = "arn:aws:dynamodb:eu-west-1:111122223333:table/mock" }
  }
  mock_resource "aws_sqs_queue" {
    defaults = { arn = "arn:aws:sqs:eu-west-1:111122223333:mock", url = "https://sqs.eu-west-1.amazonaws.com/111122223333/mock" }
  }
}

variables {
  cluster_name        = "blue"
  other_cluster_names = ["green", "red"]
}

run "four_functions_are_shared" {
  assert {
    condition = { for cluster, functions in output.function_names : cluster => functions } == {
      for cluster in ["blue", "green", "red"] : cluster => {
        planner      = "nodeless-blue-planner"
        lifecycle    = "nodeless-blue-lifecycle"
        interruption = "nodeless-blue-interruption"
        catalog      = "nodeless-blue-catalog"
        wake         = "nodeless-${cluster}-wake"
        installer    = "nodeless-${cluster}-installer"
      }
    }
    error_message = "Planner, lifecycle, interruption and catalog are those of the first cluster; wake and installer are each cluster's own."
  }

  assert {
    condition     = output.node_instance_profile_names == { for cluster in ["blue", "green", "red"] : cluster => "nodeless-${cluster}-eu-west-1-node" }
    error_message = "Each cluster has its own node role and instance profile."
  }
}

run "a_cluster_is_named_once" {
  command = plan

  variables {
    other_cluster_names = ["blue"]
  }

  expect_failures = [var.other_cluster_names]
}
