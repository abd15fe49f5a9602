terraform {
  # terraform_data, optional() defaults and cross-variable validation.
  required_version = ">= 1.9"

  required_providers {
    # The one provider. Everything that needs Kubernetes is done by the installer function, so that a plan needs no cluster
    # credentials. Tests exercise 5.100; nothing here uses what 6.x removed.
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.80, < 7.0"
    }
  }
}
