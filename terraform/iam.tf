# A role for each function, with only the permissions that its function needs. Only lifecycle writes to EC2, and only to
# resources with this cluster's tags (catalog may delete templates); the planner has no access to EC2. Policies are plain maps,
# so that the tests can read them.

resource "aws_iam_role" "function" {
  for_each = local.functions

  name                 = "${local.iam_name}-${each.key}"
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  description          = "nodeless ${each.key} for EKS cluster ${local.cluster}"
  tags                 = local.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "lambda.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy" "function" {
  for_each = local.functions

  name   = "nodeless"
  role   = aws_iam_role.function[each.key].id
  policy = jsonencode({ Version = "2012-10-17", Statement = concat(local.statements[each.key], local.in_vpc[each.key]) })
}

# Network interfaces for functions inside a VPC.
resource "aws_iam_role_policy_attachment" "vpc" {
  for_each = var.vpc_config == null ? {} : { for name, f in local.functions : name => f if name != "wake" }

  role       = aws_iam_role.function[each.key].name
  policy_arn = "arn:${local.partition}:iam::aws:policy/service-role/AWSLambdaVPCAccessExecutionRole"
}

locals {
  ec2           = "arn:${local.partition}:ec2:${local.region}"
  in_region     = { StringEquals = { "aws:RequestedRegion" = local.region } }
  created_kinds = ["fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request"]
  created_arns  = [for kind in local.created_kinds : "${local.ec2}:${local.account}:${kind}/*"]

  # Conditions for resources that already have the tags of this cluster, and for requests that add them.
  resource_is_ours = {
    StringEquals = { "aws:ResourceTag/${local.owned_tag}" = "owned" }
    StringLike   = { "aws:ResourceTag/karpenter.sh/nodepool" = "*" }
  }
  request_makes_ours = {
    StringEquals = {
      "aws:RequestTag/${local.owned_tag}"   = "owned"
      "aws:RequestTag/eks:eks-cluster-name" = local.cluster
    }
    StringLike = { "aws:RequestTag/karpenter.sh/nodepool" = "*" }
  }

  pass_node_role = {
    Sid       = "PassNodeRole"
    Effect    = "Allow"
    Action    = "iam:PassRole"
    Resource  = local.node_role_arns
    Condition = { StringEquals = { "iam:PassedToService" = ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"] } }
  }

  write_logs = {
    for name, f in local.functions : name => {
      Sid      = "WriteLogs"
      Effect   = "Allow"
      Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
      Resource = "${aws_cloudwatch_log_group.function[name].arn}:*"
    }
  }

  # Shared functions write the log of the module that creates them.
  write_own_logs = { for name in local.function_names : name => [for function, s in local.write_logs : s if function == name] }

  # AWS's policy for functions inside a VPC allows every network interface and log group of the account. Lambda creates and
  # deletes the interfaces of a function with its role, but the code of the function is denied it:
  # https://docs.aws.amazon.com/lambda/latest/dg/permissions-source-function-arn.html
  in_vpc = {
    for name, f in local.functions : name => [
      for statement in [
        {
          Sid       = "LeaveInterfacesToLambda"
          Effect    = "Deny"
          Action    = ["ec2:AssignPrivateIpAddresses", "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:UnassignPrivateIpAddresses"]
          Resource  = "*"
          Condition = { ArnEquals = { "lambda:SourceFunctionArn" = "arn:${local.partition}:lambda:${local.region}:${local.account}:function:${local.name}-${name}" } }
        },
        {
          Sid         = "WriteNoOtherLogs"
          Effect      = "Deny"
          Action      = ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"]
          NotResource = "${aws_cloudwatch_log_group.function[name].arn}:*"
        },
      ] : statement if var.vpc_config != null && name != "wake"
    ]
  }

  # The action supports only the condition, not a resource.
  read_zonal_shifts = {
    Sid       = "ReadZonalShifts"
    Effect    = "Allow"
    Action    = "arc-zonal-shift:GetManagedResource"
    Resource  = "*"
    Condition = { StringEquals = { "arc-zonal-shift:ResourceIdentifier" = local.cluster_arn } }
  }

  read_commitments = [
    {
      Sid       = "ReadReservedInstances"
      Effect    = "Allow"
      Action    = "ec2:DescribeReservedInstances"
      Resource  = "*" # takes no resource
      Condition = local.in_region
    },
    {
      # One endpoint serves all regions.
      Sid      = "ReadSavingsPlans"
      Effect   = "Allow"
      Action   = ["savingsplans:DescribeSavingsPlanRates", "savingsplans:DescribeSavingsPlans"]
      Resource = "arn:${local.partition}:savingsplans::${local.account}:savingsplan/*"
    },
  ]

  find_cluster = {
    Sid      = "FindCluster"
    Effect   = "Allow"
    Action   = "eks:DescribeCluster"
    Resource = local.cluster_arn
  }

  # The installer makes itself cluster-admin while it works, and nobody else, and only of this cluster. The ARN of an access entry ends in
  # an id that EKS assigns, and EKS does not document how it contains the path of a role, so a condition has the principal:
  # https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelastickubernetesservice.html
  access_entries = "arn:${local.partition}:eks:${local.region}:${local.account}:access-entry/${local.cluster}/role/${local.account}/*"
  only_itself_cluster_admin = {
    "eks:principalArn" = local.installer_role_arn
    "eks:policyArn"    = "arn:${local.partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
  }

  begin_cluster_admin = {
    Sid      = "BeginClusterAdmin"
    Effect   = "Allow"
    Action   = "eks:AssociateAccessPolicy"
    Resource = local.access_entries
    Condition = {
      ArnEquals    = local.only_itself_cluster_admin
      StringEquals = { "eks:accessScope" = "cluster" }
    }
  }

  # Without eks:accessScope, because the call contains no scope.
  end_cluster_admin = {
    Sid       = "EndClusterAdmin"
    Effect    = "Allow"
    Action    = "eks:DisassociateAccessPolicy"
    Resource  = local.access_entries
    Condition = { ArnEquals = local.only_itself_cluster_admin }
  }

  use_state = {
    Sid    = "UseState"
    Effect = "Allow"
    Action = [
      "dynamodb:BatchGetItem",
      "dynamodb:BatchWriteItem",
      "dynamodb:DeleteItem",
      "dynamodb:GetItem",
      "dynamodb:PutItem",
      "dynamodb:Query",
      "dynamodb:UpdateItem",
    ]
    Resource = local.table.arn
    # Several clusters may share the table. Partition keys are the cluster's name, alone or followed by # and a suffix; EKS does
    # not allow # in names. ForAllValues is also true for no values, but every one of these actions has partition keys.
    Condition = { "ForAllValues:StringLike" = { "dynamodb:LeadingKeys" = [local.cluster, "${local.cluster}#*"] } }
  }

  # Shared functions find the settings of a cluster here. Only Terraform writes them.
  read_clusters = {
    Sid       = "ReadClusters"
    Effect    = "Allow"
    Action    = "dynamodb:Query"
    Resource  = local.table.arn
    Condition = { "ForAllValues:StringEquals" = { "dynamodb:LeadingKeys" = ["#clusters"] } }
  }

  # The index's partition key is the instance, so no condition can restrict the cluster; the index contains only keys.
  find_claims_of_instances = {
    Sid      = "FindClaimsOfInstances"
    Effect   = "Allow"
    Action   = "dynamodb:Query"
    Resource = "${local.table.arn}/index/instance"
  }

  # DynamoDB decrypts the key of the table in the name of its caller:
  # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html
  use_table_key = [for key in [var.kms_key_arns.table] : {
    Sid      = "UseTableKey"
    Effect   = "Allow"
    Action   = "kms:Decrypt"
    Resource = key
    Condition = {
      StringEquals = {
        "kms:EncryptionContext:aws:dynamodb:tableName" = local.table.name
        "kms:ViaService"                               = [for suffix in local.via_suffixes : "dynamodb.${local.region}.${suffix}"]
      }
    }
  } if key != null]

  # A receiver decrypts the data key of a queue, and a sender also makes it; each of these functions is a sender:
  # https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html
  use_queue_key = [for key in [var.kms_key_arns.queues] : {
    Sid       = "UseQueueKey"
    Effect    = "Allow"
    Action    = ["kms:Decrypt", "kms:GenerateDataKey"]
    Resource  = key
    Condition = { StringEquals = { "kms:ViaService" = [for suffix in local.via_suffixes : "sqs.${local.region}.${suffix}"] } }
  } if key != null]

  # SNS makes data keys of an encrypted topic in the name of the publisher:
  # https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html#sns-what-permissions-for-sse
  send_report = flatten([for report in [var.weekly_report] : concat([{
    Sid      = "SendReport"
    Effect   = "Allow"
    Action   = "sns:Publish"
    Resource = report.topic_arn
    }], [for key in [report.kms_key_arn] : {
    Sid       = "UseTopicKey"
    Effect    = "Allow"
    Action    = ["kms:Decrypt", "kms:GenerateDataKey"]
    Resource  = key
    Condition = { StringEquals = { "kms:ViaService" = [for suffix in local.via_suffixes : "sns.${split(":", report.topic_arn)[3]}.${suffix}"] } }
  } if key != null]) if report != null])

  send = {
    for name, queues in {
      planner      = [aws_sqs_queue.plan.arn, aws_sqs_queue.claims.arn, aws_sqs_queue.catalog.arn]
      lifecycle    = [aws_sqs_queue.plan.arn, aws_sqs_queue.claims.arn]
      interruption = [aws_sqs_queue.plan.arn, aws_sqs_queue.claims.arn]
      catalog      = [aws_sqs_queue.plan.arn, aws_sqs_queue.claims.arn]
      wake         = [aws_sqs_queue.plan.arn]
      } : name => {
      Sid      = "Send"
      Effect   = "Allow"
      Action   = "sqs:SendMessage"
      Resource = queues
    }
  }

  receive = {
    for name, queue in {
      planner      = aws_sqs_queue.plan.arn
      lifecycle    = aws_sqs_queue.claims.arn
      interruption = aws_sqs_queue.interruption.arn
      catalog      = aws_sqs_queue.catalog.arn
      } : name => {
      Sid      = "Receive"
      Effect   = "Allow"
      Action   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes"]
      Resource = queue
    }
  }

  statements = {
    planner = concat(local.write_own_logs["planner"], [
      local.find_cluster,
      local.use_state,
      local.receive["planner"],
      local.send["planner"],
    ], local.use_table_key, local.use_queue_key)

    interruption = concat(local.write_own_logs["interruption"], [
      local.find_cluster,
      local.use_state,
      local.find_claims_of_instances,
      local.receive["interruption"],
      local.send["interruption"],
    ], local.use_table_key, local.use_queue_key)

    wake = concat(local.write_own_logs["wake"], [local.send["wake"]], local.use_queue_key)

    installer = concat(local.write_own_logs["installer"], [local.find_cluster, local.begin_cluster_admin, local.end_cluster_admin])

    lifecycle = concat([for s in [local.read_zonal_shifts] : s if var.zonal_shift_enabled], local.write_own_logs["lifecycle"], [
      local.find_cluster,
      local.use_state,
      local.find_claims_of_instances,
      local.receive["lifecycle"],
      local.send["lifecycle"],
      local.pass_node_role,
      {
        Sid    = "ReadEC2"
        Effect = "Allow"
        Action = [
          "ec2:DescribeImages",
          "ec2:DescribeInstanceStatus",
          "ec2:DescribeInstances",
          "ec2:DescribeLaunchTemplates",
          "ec2:DescribeSubnets",
        ]
        Resource  = "*"
        Condition = local.in_region
      },
      {
        Sid    = "LaunchInto"
        Effect = "Allow"
        Action = ["ec2:CreateFleet", "ec2:RunInstances"]
        # Images and snapshots are not part of the cluster, and shared subnets, groups and reservations may not be either. A
        # spot request has no effect without its instance, which the tags below restrict.
        Resource = [for kind in ["image", "snapshot", "security-group", "subnet", "capacity-reservation", "placement-group", "spot-instances-request"] : "${local.ec2}:*:${kind}/*"]
      },
      {
        Sid       = "LaunchFromOurTemplates"
        Effect    = "Allow"
        Action    = ["ec2:CreateFleet", "ec2:RunInstances"]
        Resource  = "${local.ec2}:${local.account}:launch-template/*"
        Condition = local.resource_is_ours
      },
      {
        Sid       = "LaunchWithOurTags"
        Effect    = "Allow"
        Action    = ["ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:RunInstances"]
        Resource  = local.created_arns
        Condition = local.request_makes_ours
      },
      {
        Sid      = "TagWhatIsLaunched"
        Effect   = "Allow"
        Action   = "ec2:CreateTags"
        Resource = local.created_arns
        Condition = {
          StringEquals = merge(local.request_makes_ours.StringEquals, {
            "ec2:CreateAction" = ["CreateFleet", "CreateLaunchTemplate", "RunInstances"]
          })
          StringLike = local.request_makes_ours.StringLike
        }
      },
      {
        Sid      = "TagOurInstances"
        Effect   = "Allow"
        Action   = "ec2:CreateTags"
        Resource = "${local.ec2}:${local.account}:instance/*"
        Condition = {
          StringEquals                = local.resource_is_ours.StringEquals
          StringLike                  = local.resource_is_ours.StringLike
          StringEqualsIfExists        = { "aws:RequestTag/eks:eks-cluster-name" = local.cluster }
          "ForAllValues:StringEquals" = { "aws:TagKeys" = ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"] }
        }
      },
      {
        # Templates have a tag with the day of their last use, so that unused ones can be deleted.
        Sid      = "MarkOurTemplates"
        Effect   = "Allow"
        Action   = "ec2:CreateTags"
        Resource = "${local.ec2}:${local.account}:launch-template/*"
        Condition = {
          StringEquals                = local.resource_is_ours.StringEquals
          StringLike                  = local.resource_is_ours.StringLike
          "ForAllValues:StringEquals" = { "aws:TagKeys" = ["nodeless.sh/last-used"] }
        }
      },
      {
        # Warm nodes are stopped and started.
        Sid    = "DeleteOurs"
        Effect = "Allow"
        Action = concat(
          ["ec2:DeleteLaunchTemplate", "ec2:StartInstances", "ec2:StopInstances", "ec2:TerminateInstances"],
          [for action in ["ec2:RebootInstances"] : action if var.feature_gates.reboot_for_repair],
        )
        Resource  = [for kind in ["instance", "launch-template"] : "${local.ec2}:${local.account}:${kind}/*"]
        Condition = local.resource_is_ours
      },
      {
        # EC2 creates this role at the first spot launch of the account, if the caller is allowed to.
        Sid       = "FirstSpotLaunch"
        Effect    = "Allow"
        Action    = "iam:CreateServiceLinkedRole"
        Resource  = "${local.iam_arn}:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot"
        Condition = { StringEquals = { "iam:AWSServiceName" = "spot.amazonaws.com" } }
      },
    ], local.use_table_key, local.use_queue_key)

    catalog = concat(local.write_own_logs["catalog"], [for s in local.read_commitments : s if var.commitments], [
      local.find_cluster,
      local.use_state,
      local.receive["catalog"],
      local.send["catalog"],
      local.pass_node_role,
      {
        Sid    = "ReadEC2"
        Effect = "Allow"
        Action = [
          "ec2:DescribeAvailabilityZones",
          "ec2:DescribeCapacityReservations",
          "ec2:DescribeImages",
          "ec2:DescribeInstanceTypeOfferings",
          "ec2:DescribeInstanceTypes",
          "ec2:DescribeLaunchTemplates",
          "ec2:DescribePlacementGroups",
          "ec2:DescribeSecurityGroups",
          "ec2:DescribeSpotPriceHistory",
          "ec2:DescribeSubnets",
        ]
        Resource  = "*"
        Condition = local.in_region
      },
      {
        # Resources of an EC2NodeClass are deleted with it, and all of them on terraform destroy.
        Sid       = "DeleteOurTemplates"
        Effect    = "Allow"
        Action    = "ec2:DeleteLaunchTemplate"
        Resource  = "${local.ec2}:${local.account}:launch-template/*"
        Condition = local.resource_is_ours
      },
      {
        # Only Amazon's public parameters; for an ssmParameter term with another parameter, attach a policy to this role.
        Sid      = "ReadImageParameters"
        Effect   = "Allow"
        Action   = "ssm:GetParameter"
        Resource = "arn:${local.partition}:ssm:${local.region}::parameter/aws/service/*"
      },
      {
        Sid      = "ReadPrices"
        Effect   = "Allow"
        Action   = "pricing:GetProducts"
        Resource = "*" # takes no resource, and answers in few regions only
      },
      {
        Sid      = "ReadInstanceProfiles"
        Effect   = "Allow"
        Action   = ["iam:GetInstanceProfile"]
        Resource = "${local.iam_arn}:instance-profile/*"
      },
      {
        Sid      = "ListInstanceProfiles"
        Effect   = "Allow"
        Action   = ["iam:ListInstanceProfiles"]
        Resource = "*" # takes no resource
      },
      {
        Sid      = "CreateInstanceProfiles"
        Effect   = "Allow"
        Action   = "iam:CreateInstanceProfile"
        Resource = "${local.iam_arn}:instance-profile/*"
        Condition = {
          StringEquals = local.profile_tags["RequestTag"]
          StringLike   = { "aws:RequestTag/karpenter.k8s.aws/ec2nodeclass" = "*" }
        }
      },
      {
        Sid      = "TagInstanceProfiles"
        Effect   = "Allow"
        Action   = "iam:TagInstanceProfile"
        Resource = "${local.iam_arn}:instance-profile/*"
        Condition = {
          StringEquals = merge(local.profile_tags["RequestTag"], local.profile_tags["ResourceTag"])
          StringLike = {
            "aws:RequestTag/karpenter.k8s.aws/ec2nodeclass"  = "*"
            "aws:ResourceTag/karpenter.k8s.aws/ec2nodeclass" = "*"
          }
        }
      },
      {
        Sid      = "ChangeOurInstanceProfiles"
        Effect   = "Allow"
        Action   = ["iam:AddRoleToInstanceProfile", "iam:DeleteInstanceProfile", "iam:RemoveRoleFromInstanceProfile"]
        Resource = "${local.iam_arn}:instance-profile/*"
        Condition = {
          # Not the cluster-name tag: profiles of older Karpenter versions do not have it.
          StringEquals = { for k, v in local.profile_tags["ResourceTag"] : k => v if !endswith(k, "eks-cluster-name") }
          StringLike   = { "aws:ResourceTag/karpenter.k8s.aws/ec2nodeclass" = "*" }
        }
      },
    ], local.use_table_key, local.use_queue_key, local.send_report)
  }

  profile_tags = {
    for side in ["RequestTag", "ResourceTag"] : side => {
      "aws:${side}/${local.owned_tag}"            = "owned"
      "aws:${side}/eks:eks-cluster-name"          = local.cluster
      "aws:${side}/topology.kubernetes.io/region" = local.region
    }
  }
}
