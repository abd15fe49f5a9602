# The API server calls wake through a webhook and cannot sign its calls, so the URL is public and the secret is in its path. A
# call with another path is rejected without an effect; a call with the path can only request a plan.
data "aws_secretsmanager_random_password" "wake_path" {
  count = local.wake_enabled ? 1 : 0

  password_length     = 48
  exclude_punctuation = true
}

# To change the path: terraform apply -replace='module.NAME.terraform_data.wake_path[0]'
resource "terraform_data" "wake_path" {
  count = local.wake_enabled ? 1 : 0

  # Provider 5.x does not mark the password as sensitive, so that a plan would print it.
  input = sensitive(data.aws_secretsmanager_random_password.wake_path[0].random_password)

  lifecycle {
    ignore_changes = [input]
  }
}

# The provider adds the resource policy statement for lambda:InvokeFunctionUrl.
resource "aws_lambda_function_url" "wake" {
  #checkov:skip=CKV_AWS_258:the API server cannot sign its webhook calls; the secret is in the path, and a call can only ask for a plan
  count = local.wake_enabled ? 1 : 0

  function_name      = aws_lambda_function.function["wake"].function_name
  authorization_type = "NONE"
}

# Function URLs created since October 2025 also need lambda:InvokeFunction. Without the condition InvokedViaFunctionUrl any AWS
# account that guesses the function's ARN could invoke it directly, and provider 5.x does not support the condition; therefore
# CloudFormation creates this resource.
resource "aws_cloudformation_stack" "wake_permission" {
  #checkov:skip=CKV_AWS_124:one permission, managed by Terraform
  count = local.wake_enabled ? 1 : 0

  # Cluster names may contain underscores, names of stacks may not. The hash distinguishes a_b and a-b.
  name = "${replace(local.name, "_", "-")}-wake-permission${strcontains(local.name, "_") ? "-${substr(sha256(local.name), 0, 6)}" : ""}"
  tags = local.tags

  template_body = jsonencode({
    Description = "Lets the Function URL of nodeless wake invoke it, and nothing else"
    Resources = {
      Permission = {
        Type = "AWS::Lambda::Permission"
        Properties = {
          Action                = "lambda:InvokeFunction"
          FunctionName          = aws_lambda_function.function["wake"].function_name
          InvokedViaFunctionUrl = true
          Principal             = "*"
        }
      }
    }
  })
}
