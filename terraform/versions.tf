terraform {
  # terraform_data, optional() defaults and cross-variable validation.
  required_version = ">= 1.9"

  required_providers {
    # The only provider. The installer function performs all work in Kubernetes, so that a plan needs no cluster credentials.
    # Tests use 5.100; the module uses nothing that 6.x removed.
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.80, < 7.0"
    }
  }
}
