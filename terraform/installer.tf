# Runs on apply whenever what it would install changes, and once on destroy, when Terraform adds {"tf":{"action":"delete"}} to
# the same input: then it removes webhook and RBAC. It never removes a CRD, because with it would go every NodePool.
resource "aws_lambda_invocation" "install" {
  count = var.install ? 1 : 0

  function_name   = aws_lambda_function.function["installer"].function_name
  lifecycle_scope = "CRUD"

  input = jsonencode({
    action  = "install"
    cluster = local.cluster
    wakeUrl = var.wake_enabled ? local.wake_url : null
    # Re-invoked when any of these changes. The zip embeds CRDs, RBAC and the webhook.
    version = join("-", compact([substr(sha256(filebase64sha256("${var.artifacts_directory}/installer/bootstrap.zip")), 0, 12), var.installation_version]))
  })

  depends_on = [
    aws_eks_access_entry.installer,
    aws_eks_access_policy_association.installer,
    aws_eks_access_entry.controller,
    aws_cloudformation_stack.wake_permission,
  ]
}
