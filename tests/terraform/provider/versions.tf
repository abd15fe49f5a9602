# The provider with which the tests apply the module; .ci/terraform-provider installs it.
terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "5.100.0"
    }
  }
}
