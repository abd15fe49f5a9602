# Runs on apply when anything that it installs changes, and once on destroy, when Terraform adds {"tf":{"action":"delete"}} to
# the same input: then it removes the webhook and RBAC. It never removes a CRD, because that would delete every NodePool. Its access
# entry and the policy of its role exist before the first invocation and until after the last: it gets its rights by them.
resource "aws_lambda_invocation" "install" {
  count = var.install ? 1 : 0

  function_name   = aws_lambda_function.function["installer"].function_name
  lifecycle_scope = "CRUD"

  input = jsonencode({
    action  = "install"
    cluster = local.cluster
    wakeUrl = local.wake_enabled ? local.wake_url : null
    # Whether the API server can reach the wake function with any controlPlaneEgressMode.
    ownEndpoint = var.wake_endpoint != null
    # Whether lifecycle may patch pods/status.
    nominations = var.nominations_enabled
    # Whether the role admin of Kubernetes includes the role nodeless:admin.
    aggregateToAdmin = var.aggregate_to_admin
    # Invoked again if any of these changes. The zip embeds CRDs, RBAC and the webhook. The table identifies the deployment that serves
    # the cluster, and the function has it from its environment.
    version = join("-", compact([substr(sha256(local.artifact_hashes["installer"]), 0, 12), local.table.name, var.installation_version]))
  })

  depends_on = [
    aws_eks_access_entry.installer,
    aws_eks_access_entry.controller,
    aws_cloudformation_stack.wake_permission,
    aws_vpc_security_group_ingress_rule.functions,
  ]
}

# The first catalog, which planning requires. If EC2 cannot be read, the apply fails instead of every plan after it.
resource "aws_lambda_invocation" "catalog" {
  count = var.install ? 1 : 0

  function_name = local.serving["catalog"].name

  input = jsonencode(merge({
    required = true
    # Invoked again if this changes: another release may store the catalog in another format.
    version = substr(sha256(local.artifact_hashes["catalog"]), 0, 12)
  }, local.shares_functions ? { cluster = local.cluster } : {}))

  # The catalog reads EC2NodeClasses, whose CRD and permissions have to exist.
  depends_on = [aws_lambda_invocation.install, aws_iam_role_policy_attachment.shared, aws_dynamodb_table_item.cluster]
}

# Removes every node before nodeless is destroyed: everything that this resource depends on is destroyed after it. Without it
# the nodes keep running.
resource "aws_lambda_invocation" "remove_nodes" {
  count = var.install && var.remove_nodes_on_destroy ? 1 : 0

  function_name   = aws_lambda_function.function["installer"].function_name
  lifecycle_scope = "CRUD"

  input = jsonencode({
    action  = "removeNodes"
    cluster = local.cluster
  })

  depends_on = [
    aws_lambda_invocation.install,
    aws_lambda_event_source_mapping.plan,
    aws_lambda_event_source_mapping.claims,
    aws_lambda_event_source_mapping.catalog,
    aws_cloudwatch_event_target.heartbeat,
    aws_cloudwatch_event_target.sweep,
    aws_cloudwatch_event_target.catalog,
    aws_sqs_queue_policy.events,
    aws_lambda_function_recursion_config.function,
    aws_eks_access_entry.node,
    aws_eks_access_entry.windows_node,
    aws_iam_role_policy_attachment.node,
    aws_iam_role_policy.node,
  ]
}

# Warnings, not errors: the CIDRs in public_access_cidrs may include Lambda, and the VPC CNI may have a role of its own.
check "cluster_fits" {
  data "aws_eks_cluster" "this" {
    name = local.cluster
  }

  assert {
    condition     = (var.vpc_config != null && (!local.shares_functions || try(var.shared_functions.in_vpc, false))) || (data.aws_eks_cluster.this.vpc_config[0].endpoint_public_access && contains(data.aws_eks_cluster.this.vpc_config[0].public_access_cidrs, "0.0.0.0/0"))
    error_message = "The functions run outside the VPC, and the endpoint of cluster ${local.cluster} is private or restricted by public_access_cidrs. The addresses of Lambda change: set vpc_config, and endpoint_private_access on the cluster."
  }

  assert {
    condition     = try(data.aws_eks_cluster.this.access_config[0].authentication_mode, "API") != "CONFIG_MAP"
    error_message = "Cluster ${local.cluster} has the authentication mode CONFIG_MAP, in which access entries have no effect: set access_config.authentication_mode of the cluster to API_AND_CONFIG_MAP. Where it has to stay, set create_access_entries = false and install = false, as terraform/README.md describes."
  }

  assert {
    condition     = !var.create_node_role || try(data.aws_eks_cluster.this.kubernetes_network_config[0].ip_family, var.ip_family) == var.ip_family
    error_message = "Cluster ${local.cluster} is not of the IP family ${var.ip_family}: pods on nodes with the module's node role get no address. Set ip_family to that of the cluster."
  }
}
