moved {
  from = aws_dynamodb_table.state
  to   = aws_dynamodb_table.state[0]
}

resource "aws_dynamodb_table" "state" {
  #checkov:skip=CKV_AWS_119:encrypted with the key of DynamoDB unless kms_key_arns.table is set; the table holds names of nodes and no secret
  count = local.shares_functions ? 0 : 1

  name                        = local.name
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "pk"
  range_key                   = "sk"
  deletion_protection_enabled = var.deletion_protection
  tags                        = local.tags

  attribute {
    name = "pk"
    type = "S"
  }

  attribute {
    name = "sk"
    type = "S"
  }

  attribute {
    name = "instanceId"
    type = "S"
  }

  # Finds the claim of an instance that EC2 interrupts; the claim is then read by its key, because an index of whole records
  # would double the cost of each write. Items without an instance are not in the index.
  global_secondary_index {
    name            = "instance"
    hash_key        = "instanceId"
    projection_type = "KEYS_ONLY"
  }

  ttl {
    attribute_name = "expires"
    enabled        = true
  }

  point_in_time_recovery {
    enabled = true
  }

  server_side_encryption {
    # false is the AWS-owned key: encrypted at rest, without a charge for every request.
    enabled     = var.kms_key_arns.table != null
    kms_key_arn = var.kms_key_arns.table
  }
}
