variable "cluster_name" {
  description = "Name of the EKS cluster. Also the partition key of the state table and the value of the ownership tags."
  type        = string

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", var.cluster_name))
    error_message = "cluster_name must be an EKS cluster name: 1 to 100 letters, digits, '-' or '_', starting with a letter or digit."
  }
}

variable "artifacts_directory" {
  description = "Directory that holds NAME/bootstrap.zip for each function: the folder `lambda` of a release, or target/lambda after `cargo lambda build --release --arm64 --output-format zip`. Leave it out with artifacts_s3."
  type        = string
  default     = null

  validation {
    condition     = (var.artifacts_directory == null) != (var.artifacts_s3 == null)
    error_message = "Set either artifacts_directory or artifacts_s3, and not both."
  }

  validation {
    condition = var.artifacts_directory == null || alltrue([
      for name in ["planner", "lifecycle", "interruption", "catalog", "wake", "installer"] :
      fileexists("${coalesce(var.artifacts_directory, ".")}/${name}/bootstrap.zip")
    ])
    error_message = "artifacts_directory must hold planner, lifecycle, interruption, catalog, wake and installer, each with a bootstrap.zip. Build them with: cargo lambda build --release --arm64 --output-format zip"
  }
}

variable "artifacts_s3" {
  description = "Location of the folder `lambda` of a release in S3, instead of artifacts_directory: a bucket in the region of the functions, and the prefix of checksums.json and NAME/bootstrap.zip, empty or ending in '/'. The user who applies needs s3:GetObject there."
  type = object({
    bucket = string
    prefix = optional(string, "")
  })
  default = null

  validation {
    condition     = var.artifacts_s3 == null || can(regex("^$|/$", var.artifacts_s3.prefix))
    error_message = "The prefix of artifacts_s3 must be empty or end in '/'."
  }
}

variable "architecture" {
  description = "Instruction set of the zips: arm64 (a fifth cheaper) or x86_64."
  type        = string
  default     = "arm64"

  validation {
    condition     = contains(["arm64", "x86_64"], var.architecture)
    error_message = "architecture must be arm64 or x86_64, the one the zips were built for."
  }
}

variable "functions" {
  description = "Memory (MB), timeout (seconds) and reserved concurrency (-1: none) of each function. The visibility timeouts of the plan queue and the catalog queue are five seconds above the timeouts of their functions. Lifecycle waits up to 45 s for an answer to CreateFleet."
  type = object({
    planner = optional(object({
      memory               = optional(number, 1024)
      timeout              = optional(number, 40)
      reserved_concurrency = optional(number, -1)
    }), {})
    lifecycle = optional(object({
      memory               = optional(number, 1024)
      timeout              = optional(number, 90)
      reserved_concurrency = optional(number, -1)
    }), {})
    interruption = optional(object({
      memory               = optional(number, 256)
      timeout              = optional(number, 30)
      reserved_concurrency = optional(number, -1)
    }), {})
    catalog = optional(object({
      memory               = optional(number, 1024)
      timeout              = optional(number, 240)
      reserved_concurrency = optional(number, -1)
    }), {})
    wake = optional(object({
      memory  = optional(number, 256)
      timeout = optional(number, 5)
      # The only function that is public: the reservation limits the cost and the concurrency of a flood of calls. Accounts with
      # a total concurrency of 10 cannot reserve any; set -1, or request the default of 1000.
      reserved_concurrency = optional(number, 5)
    }), {})
    installer = optional(object({
      memory               = optional(number, 256)
      timeout              = optional(number, 900)
      reserved_concurrency = optional(number, -1)
    }), {})
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.functions.lifecycle.timeout >= 75
    error_message = "functions.lifecycle.timeout must be at least 75 seconds: it waits up to 45 for the answer to CreateFleet, and records the answer after that."
  }

  validation {
    condition     = (var.functions.lifecycle.reserved_concurrency <= 0 || var.functions.lifecycle.reserved_concurrency >= var.claims_concurrency) && (var.functions.interruption.reserved_concurrency <= 0 || var.functions.interruption.reserved_concurrency >= 5)
    error_message = "functions: reserved_concurrency of lifecycle must not be less than claims_concurrency, and that of interruption not less than 5: Lambda would refuse what their queues start."
  }

  validation {
    condition     = var.functions.planner.timeout >= 10 && var.functions.planner.timeout <= 50
    error_message = "functions.planner.timeout must be 10 to 50 seconds: the messages of a killed planner are delivered again five seconds later, and the next plan has to start within a minute."
  }

  validation {
    condition     = alltrue([for f in values(var.functions) : f.memory >= 128 && f.memory <= 10240 && f.timeout >= 1 && f.timeout <= 900])
    error_message = "functions: memory is 128 to 10240 MB and timeout 1 to 900 seconds."
  }

  validation {
    condition     = var.functions.installer.timeout >= 180
    error_message = "functions.installer.timeout must be at least 180 seconds: the installer waits up to 75 for its rights in the cluster, and keeps 40 to give them back."
  }

  validation {
    condition     = var.functions.catalog.timeout < 300
    error_message = "functions.catalog.timeout must stay below 300 seconds, so that a refresh ends before the next one of the five-minute schedule."
  }
}

variable "shared_functions" {
  description = "The functions planner, lifecycle, interruption and catalog of another instance of this module, as its output shared_functions: they then serve this cluster too, and this module creates everything but those functions and the table. Clusters that share functions should have the same administrators (docs/reference/security.md). null (default) creates the functions."
  type = object({
    cluster            = string
    account            = string
    region             = string
    in_vpc             = bool
    security_group_ids = list(string)
    table              = object({ name = string, arn = string })
    functions = map(object({
      name                 = string
      arn                  = string
      role_name            = string
      role_arn             = string
      log_group_name       = string
      artifact_hash        = string
      timeout              = number
      reserved_concurrency = number
    }))
  })
  default = null
}

variable "vpc_config" {
  description = "Subnets and security groups to run the functions in, for a cluster whose API endpoint is private or whose public_access_cidrs do not include Lambda. null (default) runs them outside any VPC: interface endpoints or NAT cost more than everything else together. The subnets need a route to EC2, SQS, DynamoDB (a gateway endpoint is free), EKS, STS, SSM, CloudWatch Logs and, with weekly_report, SNS, for all of which there are interface endpoints; IAM and the Price List have none in most regions, and ARC (zonal_shift_enabled) none at all, so the functions need a NAT gateway for those. cluster_security_group_id adds a rule to that group by which the functions reach a private endpoint; null leaves the rule to you."
  type = object({
    subnet_ids                = list(string)
    security_group_ids        = list(string)
    cluster_security_group_id = optional(string)
  })
  default = null

  validation {
    condition     = var.vpc_config == null ? true : length(var.vpc_config.subnet_ids) > 0 && length(var.vpc_config.security_group_ids) > 0
    error_message = "vpc_config needs at least one subnet and one security group."
  }
}

variable "extra_environment" {
  description = "More environment variables for every function, such as AWS_ENDPOINT_URL_EC2 for a private or emulated endpoint. Variables that the module sets cannot be overridden."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for k in keys(var.extra_environment) : !startswith(k, "NODELESS_") && !contains(["CLUSTER_NAME", "RUST_LOG"], k)])
    error_message = "extra_environment may not set CLUSTER_NAME, RUST_LOG or NODELESS_*: the module sets those."
  }

  validation {
    condition = length(setintersection(keys(var.extra_environment), [
      "BATCH_IDLE_DURATION", "BATCH_MAX_DURATION", "DISABLE_DRY_RUN", "ENABLE_ZONAL_SHIFT", "FEATURE_GATES", "ISOLATED_VPC",
      "MIN_VALUES_POLICY", "PREFERENCE_POLICY", "RESERVED_ENIS", "SCHEDULER_CONFIG", "VM_MEMORY_OVERHEAD_PERCENT",
    ])) == 0
    error_message = "extra_environment contains a setting of Karpenter, which the functions do not read: the module has variables with these names in lower case (zonal_shift_enabled for ENABLE_ZONAL_SHIFT); docs/settings.md lists them."
  }
}

variable "log_level" {
  description = "Log level or tracing filter of the functions for messages other than their structured log lines, which are always written, such as warn,nodeless_planner=debug. Errors that the Kubernetes client logs for requests that are repeated or handled are shown only if it names kube_client."
  type        = string
  default     = "info"
}

variable "log_retention_days" {
  description = "Days that the functions' logs are kept."
  type        = number
  default     = 30

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "log_retention_days must be a retention that CloudWatch Logs offers, such as 7, 14, 30, 90 or 365."
  }
}

variable "claims_concurrency" {
  description = "Maximum number of concurrent lifecycle invocations for the claims queue."
  type        = number
  default     = 10

  validation {
    condition     = var.claims_concurrency >= 2 && var.claims_concurrency <= 1000
    error_message = "claims_concurrency must be 2 to 1000, the bounds of an SQS event source mapping."
  }
}

variable "schedules" {
  description = "EventBridge schedule expressions: the planner's heartbeat, the lifecycle sweep and the catalog refresh."
  type = object({
    heartbeat = optional(string, "rate(1 minute)")
    sweep     = optional(string, "rate(1 minute)")
    catalog   = optional(string, "rate(5 minutes)")
  })
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for s in values(var.schedules) : can(regex("^(rate|cron)\\(.+\\)$", s))])
    error_message = "schedules must be rate(...) or cron(...) expressions."
  }
}

variable "schedules_enabled" {
  description = "false stops heartbeat, sweep, catalog and the weekly report, and with them every decision, for example during an investigation. The alarm `stale` fires meanwhile."
  type        = bool
  default     = true
}

variable "feature_gates" {
  description = "Karpenter's feature gates (FEATURE_GATES and AWS_FEATURE_GATES). node_repair: replace nodes that have been unhealthy for too long, unless more than a fifth of a NodePool is unhealthy; disabled by default, as in Karpenter. reboot_for_repair: with node_repair, first reboot nodes with some faults of NVIDIA GPUs, twice in 24 hours at most; disabled by default, as in Karpenter. spot_to_spot_consolidation: replace spot nodes by cheaper spot nodes; disabled by default, as in Karpenter. What the other gates enable is always available, and does nothing unless an object asks for it."
  type = object({
    node_repair                = optional(bool, false)
    reboot_for_repair          = optional(bool, false)
    spot_to_spot_consolidation = optional(bool, false)
    capacity_buffer            = optional(bool, true)
    node_overlay               = optional(bool, true)
    reserved_capacity          = optional(bool, true)
    static_capacity            = optional(bool, true)
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.feature_gates.capacity_buffer && var.feature_gates.node_overlay && var.feature_gates.reserved_capacity && var.feature_gates.static_capacity
    error_message = "feature_gates: capacity_buffer, node_overlay, reserved_capacity and static_capacity cannot be false. They do nothing unless an object asks for it."
  }
}

variable "batch_idle_duration" {
  description = "Karpenter's BATCH_IDLE_DURATION: a plan starts when no further pod has become pending for this time, such as 1s or 500ms."
  type        = string
  default     = "1s"
  nullable    = false

  validation {
    condition     = can(regex("^[0-9]+(ms|s)$", var.batch_idle_duration)) && try(tonumber(trimsuffix(trimsuffix(var.batch_idle_duration, "s"), "m")) * (endswith(var.batch_idle_duration, "ms") ? 0.001 : 1) <= 30, false)
    error_message = "batch_idle_duration is a duration of at most 30 seconds such as 1s or 500ms."
  }
}

variable "batch_max_duration" {
  description = "Karpenter's BATCH_MAX_DURATION: the maximum time that a plan waits for further pods, such as 10s. It is twice as long, up to 20 seconds, while five pods a second become pending."
  type        = string
  default     = "10s"
  nullable    = false

  validation {
    condition     = can(regex("^[0-9]+(ms|s)$", var.batch_max_duration)) && try(tonumber(trimsuffix(trimsuffix(var.batch_max_duration, "s"), "m")) * (endswith(var.batch_max_duration, "ms") ? 0.001 : 1) <= 30, false)
    error_message = "batch_max_duration is a duration of at most 30 seconds such as 10s."
  }

  validation {
    condition     = try(tonumber(trimsuffix(trimsuffix(var.batch_max_duration, "s"), "m")) * (endswith(var.batch_max_duration, "ms") ? 0.001 : 1) <= max(10, var.functions.planner.timeout - 15), true)
    error_message = "batch_max_duration above 10 seconds must leave the planner 15 seconds of functions.planner.timeout; raise that (50 at most) or lower batch_max_duration."
  }
}

variable "reserved_enis" {
  description = "Karpenter's RESERVED_ENIS: the number of network interfaces of each node that do not count for its number of pods, for example with custom networking of the VPC CNI or a trunk interface for security groups for pods."
  type        = number
  default     = 0
  nullable    = false

  validation {
    condition     = var.reserved_enis >= 0 && var.reserved_enis <= 1000 && floor(var.reserved_enis) == var.reserved_enis
    error_message = "reserved_enis is a whole number, 0 or more."
  }
}

variable "vm_memory_overhead_percent" {
  description = "Karpenter's VM_MEMORY_OVERHEAD_PERCENT: the fraction of an instance type's memory that is not available on its nodes, until a node of the type has reported its memory; 0.075 is 7.5%."
  type        = number
  default     = 0.075
  nullable    = false

  validation {
    condition     = var.vm_memory_overhead_percent >= 0 && var.vm_memory_overhead_percent < 1
    error_message = "vm_memory_overhead_percent is a fraction of at least 0 and less than 1: 0.075 is 7.5%."
  }
}

variable "isolated_vpc" {
  description = "Karpenter's ISOLATED_VPC, for vpc_config whose subnets reach only services with a VPC endpoint: the Price List and IAM are not called. On-demand prices are those that were read before, or those of the build. EC2NodeClasses must use the module's node role or spec.instanceProfile."
  type        = bool
  default     = false
  nullable    = false
}

variable "disable_dry_run" {
  description = "Karpenter's DISABLE_DRY_RUN: EC2NodeClasses become ready without validation by EC2 dry runs."
  type        = bool
  default     = false
  nullable    = false
}

variable "zonal_shift_enabled" {
  description = "Honour zonal shifts of Amazon Application Recovery Controller, as Karpenter does with ENABLE_ZONAL_SHIFT: while the cluster is shifted away from a zone, nothing is launched there, and its nodes are neither disrupted voluntarily nor terminated. The cluster must be registered with ARC (zonal_shift_config of aws_eks_cluster); nodeless detects shifts by EventBridge events and by the sweep each minute. Setting it back to false ends the effect of a shift at once."
  type        = bool
  default     = false
  nullable    = false
}

variable "commitments" {
  description = "Plan with the Savings Plans and Reserved Instances of the account: launches use what is paid already, and consolidation removes nothing that they cover without a saving. The catalog function may then read them; commitments that other accounts of the organization share are not seen. docs/commitments.md describes it."
  type        = bool
  default     = false
  nullable    = false
  validation {
    condition     = !(var.commitments && var.isolated_vpc)
    error_message = "commitments requires isolated_vpc = false: the API of Savings Plans has no VPC endpoint."
  }
}

variable "nominations_enabled" {
  description = "Nominate the nodes that a plan launched for their pods (status.nominatedNodeName), so that the kube-scheduler binds the pods where they were planned. Nodes of a plan stay closed by the taint nodeless.sh/joining until all of them have joined, for 30 seconds at most. The installer then grants lifecycle the right to patch pods/status; docs/reference/security.md explains what that allows."
  type        = bool
  default     = true
  nullable    = false
}

variable "aggregate_to_admin" {
  description = "Add the role nodeless:admin to the role admin of Kubernetes: whoever is admin of a namespace may then create CapacityBuffers and ProvisioningRequests in it, which launch nodes without a pod, up to the ResourceQuotas of the namespace. docs/security.md explains what a namespace can cost."
  type        = bool
  default     = false
  nullable    = false
}

variable "metrics_by_nodepool" {
  description = "Publish NodeCount, HourlySpendDollars, NodesLaunched and NodesTerminated for each NodePool too, with the dimensions Cluster and NodePool. CloudWatch charges for each of them: about $1.20 a month for each NodePool."
  type        = bool
  default     = false
  nullable    = false
}

variable "preference_policy" {
  description = "Karpenter's PREFERENCE_POLICY. Respect: preferences of pods (preferred affinity and anti-affinity, ScheduleAnyway spread) are tried before they are relaxed, and consolidation keeps those that are satisfied. Ignore: they are ignored."
  type        = string
  default     = "Respect"
  nullable    = false
  validation {
    condition     = contains(["Respect", "Ignore"], var.preference_policy)
    error_message = "preference_policy is Respect or Ignore."
  }
}

variable "min_values_policy" {
  description = "Karpenter's MIN_VALUES_POLICY. Strict: a NodePool whose minValues cannot be satisfied launches nothing. BestEffort: it launches with fewer."
  type        = string
  default     = "Strict"
  nullable    = false
  validation {
    condition     = contains(["Strict", "BestEffort"], var.min_values_policy)
    error_message = "min_values_policy is Strict or BestEffort."
  }
}

variable "expected_pods" {
  description = "For which pods nodes are launched before they are created: off (default), samples or templates. Apply infra/rbac/optional/expected-pods.yaml first."
  type        = string
  default     = "off"
  nullable    = false

  validation {
    condition     = contains(["off", "samples", "templates"], var.expected_pods)
    error_message = "expected_pods is off, samples or templates."
  }
}

variable "scheduler_config" {
  description = "Karpenter's SCHEDULER_CONFIG, as YAML or JSON: podTopologySpread.defaultConstraints, the default topology spread constraints of the cluster's kube-scheduler. Plans apply them to pods without constraints that a Service, ReplicationController, ReplicaSet or StatefulSet selects. Leave it empty (default) with the scheduler of EKS, which has no such constraints besides its soft ones."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = var.scheduler_config == "" || can(keys(yamldecode(var.scheduler_config)))
    error_message = "scheduler_config is a YAML or JSON document, such as jsonencode({ podTopologySpread = { defaultConstraints = [{ maxSkew = 1, topologyKey = \"topology.kubernetes.io/zone\", whenUnsatisfiable = \"ScheduleAnyway\" }] } })."
  }

  validation {
    condition = try(alltrue([
      length(setsubtract(keys(yamldecode(var.scheduler_config)), ["podTopologySpread"])) == 0,
      length(setsubtract(keys(try(yamldecode(var.scheduler_config).podTopologySpread, {})), ["defaultConstraints"])) == 0,
      alltrue([for one in try(yamldecode(var.scheduler_config).podTopologySpread.defaultConstraints, []) : alltrue([
        length(setsubtract(keys(one), ["maxSkew", "topologyKey", "whenUnsatisfiable", "minDomains", "nodeAffinityPolicy", "nodeTaintsPolicy"])) == 0,
        try(one.maxSkew > 0 && floor(one.maxSkew) == one.maxSkew, false),
        can(regex("^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$", one.topologyKey)),
        contains(["DoNotSchedule", "ScheduleAnyway"], one.whenUnsatisfiable),
      ])]),
      length(distinct([for one in try(yamldecode(var.scheduler_config).podTopologySpread.defaultConstraints, []) : [one.topologyKey, one.whenUnsatisfiable]])) == length(try(yamldecode(var.scheduler_config).podTopologySpread.defaultConstraints, [])),
    ]), !can(keys(yamldecode(var.scheduler_config))))
    error_message = "scheduler_config has only podTopologySpread.defaultConstraints: each constraint with maxSkew above 0, a topologyKey and whenUnsatisfiable (DoNotSchedule or ScheduleAnyway), no two with the same topologyKey and whenUnsatisfiable, and none with a labelSelector or matchLabelKeys, because selectors are deduced for each pod."
  }
}

variable "keep_snapshots" {
  description = "How long the table keeps the snapshot of each plan, such as 2h, so that `nodeless plan --snapshot` can replay it; empty (default) keeps nothing. A snapshot of a large cluster has some megabytes, and each kilobyte costs a write request unit: set it only to investigate a decision. It contains pods, nodes and objects as planning reads them, no Secret, no environment variable and no user data."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = can(regex("^([0-9]+(h|m|s))*$", var.keep_snapshots))
    error_message = "keep_snapshots is a duration such as 2h or 90m, or empty."
  }
}

variable "cost_labels" {
  description = "Labels of pods by whose values the planner records what nodes cost, for `nodeless report --by label=KEY`: at most 5. Each one adds up to 200 groups to every record of an hour. [] records costs by NodePool, namespace and instance type only."
  type        = list(string)
  default     = ["app.kubernetes.io/name"]
  nullable    = false

  validation {
    condition     = length(var.cost_labels) <= 5 && alltrue([for key in var.cost_labels : can(regex("^([A-Za-z0-9]([-A-Za-z0-9.]{0,251}[A-Za-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$", key))])
    error_message = "cost_labels has at most 5 keys of labels, such as app.kubernetes.io/name."
  }
}

variable "wake_enabled" {
  description = "Serve a Function URL that the API server calls when a pod cannot be scheduled, so that planning starts within seconds, and when an EC2NodeClass is created, changed or deleted. If false, both wait up to a minute for the heartbeat. null (default) serves it in the regions for which AWS documents Function URLs (docs/compatibility.md)."
  type        = bool
  default     = null
}

variable "create_node_role" {
  description = "Create a role for nodes. false uses node_role_arn. Separate from node_role_arn, which may be known only after apply."
  type        = bool
  default     = true
}

variable "node_role_arn" {
  description = "An existing role for nodes, such as the one Karpenter used, with create_node_role = false."
  type        = string
  default     = null

  validation {
    condition     = var.node_role_arn == null ? true : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:role/.+$", var.node_role_arn))
    error_message = "node_role_arn must be the ARN of an IAM role."
  }

  validation {
    condition     = var.create_node_role == (var.node_role_arn == null)
    error_message = "Set node_role_arn together with create_node_role = false, or neither."
  }
}

variable "node_role_additional_policies" {
  description = "ARNs of further IAM policies for the module's node role, by names of your choice: for an agent on the nodes, or a registry of another account. With create_node_role = false, attach them to your role yourself."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for arn in values(var.node_role_additional_policies) : can(regex("^arn:[a-z-]+:iam::([0-9]{12}|aws):policy/", arn))])
    error_message = "node_role_additional_policies has ARNs of IAM policies, such as arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy."
  }
}

variable "ip_family" {
  description = "IP family of the cluster (kubernetes_network_config.ip_family of aws_eks_cluster): ipv4 or ipv6. It decides which permissions of the VPC CNI the node role gets, with create_node_role = true: pods of an IPv6 cluster get no address without those for ipv6."
  type        = string
  default     = "ipv4"
  nullable    = false

  validation {
    condition     = contains(["ipv4", "ipv6"], var.ip_family)
    error_message = "ip_family is ipv4 or ipv6."
  }
}

variable "windows_node_role_arns" {
  description = "Roles of Windows nodes, for spec.role of EC2NodeClasses whose AMI family is Windows. Each gets an access entry of type EC2_WINDOWS (unless create_access_entries is false): a role has one entry, so it cannot be the role of Linux nodes. The cluster's vpc-cni needs Windows support, and its vpc-resource-controller a Linux node."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = length(setintersection(var.windows_node_role_arns, concat([coalesce(var.node_role_arn, "-")], var.additional_node_role_arns))) == 0
    error_message = "A role in windows_node_role_arns is also the role of Linux nodes: it can have an access entry of one type only."
  }
}

variable "additional_node_role_arns" {
  description = "Additional roles for spec.role of EC2NodeClasses. Instances can only get these roles and the node role. Each needs its own EC2_LINUX access entry."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "iam_path" {
  description = "Path of the roles, policies and instance profile of the module, such as /teams/platform/, for organizations that allow roles only below one. The catalog function creates instance profiles below it."
  type        = string
  default     = "/"
  nullable    = false

  validation {
    condition     = can(regex("^/([!-~]+/)?$", var.iam_path)) && length(var.iam_path) <= 512
    error_message = "iam_path begins and ends with '/', such as /teams/platform/."
  }
}

variable "permissions_boundary_arn" {
  description = "ARN of a policy that becomes the permissions boundary of every role of the module. It must allow what docs/reference/security.md lists for the functions, and what the node role's policies allow. null (default) sets none."
  type        = string
  default     = null

  validation {
    condition     = var.permissions_boundary_arn == null ? true : can(regex("^arn:[a-z-]+:iam::([0-9]{12}|aws):policy/.+$", var.permissions_boundary_arn))
    error_message = "permissions_boundary_arn must be the ARN of an IAM policy."
  }
}

variable "kms_key_arns" {
  description = "Customer managed keys of KMS, as ARNs of keys in the region: of the state table, the queues, the log groups and the environment variables of the functions. null (default) encrypts each with a key of AWS, which costs nothing. The key policies must allow EventBridge (queues) and CloudWatch Logs (logs) to use the keys, as docs/install/organization.md shows."
  type = object({
    table       = optional(string)
    queues      = optional(string)
    logs        = optional(string)
    environment = optional(string)
  })
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for arn in values(var.kms_key_arns) : arn == null ? true : can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/.+$", arn))])
    error_message = "kms_key_arns are ARNs of keys (arn:aws:kms:REGION:ACCOUNT:key/ID), not of aliases: IAM policies cannot name an alias."
  }

  validation {
    condition     = var.kms_key_arns.table == null || var.shared_functions == null
    error_message = "kms_key_arns.table is a setting of the module that creates the table: clusters with shared_functions use that table."
  }
}

variable "create_access_entries" {
  description = "Create the EKS access entries of nodes and functions. Set false if you manage access elsewhere; the README lists the entries that you have to create then."
  type        = bool
  default     = true
}

variable "create_node_access_entry" {
  description = "Create the EC2_LINUX access entry of the node role. Set false if the role already has one, for example during a migration from Karpenter."
  type        = bool
  default     = true
}

variable "install" {
  description = "Let Terraform invoke the installer function, which applies CRDs, RBAC and the wake webhook. false creates neither the invocation nor the installer's access entry: run `nodeless install` instead."
  type        = bool
  default     = true
}

variable "installation_version" {
  description = "A value that makes the installer run again when it changes. The installer's own zip is tracked already."
  type        = string
  default     = ""
}

variable "deletion_protection" {
  description = "Protect the state table from deletion. Losing it loses no node: claims are rebuilt from EC2 tags and Nodes. Disable it before terraform destroy."
  type        = bool
  default     = true
}

variable "recursive_loop_allowed" {
  description = "Whether to allow recursive loops of planner, lifecycle, interruption and catalog in Lambda (PutFunctionRecursionConfig): they wake each other. null (default) allows them in the regions in which Lambda detects such loops, and makes no call elsewhere (docs/compatibility.md). false in a region that detects them: Lambda drops messages, and nodes are reconciled once a minute."
  type        = bool
  default     = null
}

variable "alarms" {
  description = "Thresholds of the alarms; 0 disables an alarm. churn = false disables the alarm for a NodePool that evicts many pods without becoming cheaper, ami_canary = false that for a new AMI whose first node fails, throttles = false that for invocations that Lambda refuses, launch_failures = false that for launches that fail for a quarter of an hour, unschedulable_pods = false that for pods that fit no NodePool, unused_launches = false that for pods that take no node that is launched for them. On request: budget = true creates one for budgets (nodeless.sh/dollars-per-month), cluster_limit_percent = 90 one for limits of the cluster (nodeless.sh/max-nodes and others), and node_count one for more nodes than that. plans_without_new_pods_per_hour is the number of plans that the webhook requests in an hour for no new pod. CloudWatch charges $0.10 a month for each metric of an alarm. enabled = false disables all alarms."
  type = object({
    enabled                         = optional(bool, true)
    node_count                      = optional(number, 0)
    hourly_spend_dollars            = optional(number, 50)
    cluster_limit_percent           = optional(number, 0)
    nodes_launched_per_hour         = optional(number, 100)
    plans_without_new_pods_per_hour = optional(number, 1000)
    churn                           = optional(bool, true)
    ami_canary                      = optional(bool, true)
    throttles                       = optional(bool, true)
    launch_failures                 = optional(bool, true)
    unschedulable_pods              = optional(bool, true)
    unused_launches                 = optional(bool, true)
    budget                          = optional(bool, false)
  })
  default  = {}
  nullable = false
}

variable "dashboard" {
  description = "Whether to create the CloudWatch dashboard, which costs 3 dollars a month beyond the three free dashboards of an account."
  type        = bool
  default     = false
  nullable    = false
}

variable "alarm_topic_arn" {
  description = "SNS topic that alarms notify. With null, alarms only change state."
  type        = string
  default     = null
}

variable "weekly_report" {
  description = "SNS topic that gets a report of what the nodes of the cluster cost in the last seven days, each Monday at 07:00 UTC: the text of `nodeless report --window 7d` (docs/report.md). topic_arn is a standard topic. kms_key_arn is the customer managed key of KMS with which the topic is encrypted, if it is; the policy of the key must allow the role of catalog to use it. null (default) sends nothing. schedules_enabled = false also stops the report."
  type = object({
    topic_arn   = string
    kms_key_arn = optional(string)
  })
  default = null

  validation {
    condition     = var.weekly_report == null ? true : can(regex("^arn:[a-z-]+:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}$", var.weekly_report.topic_arn))
    error_message = "weekly_report.topic_arn is the ARN of a standard topic (arn:aws:sns:REGION:ACCOUNT:NAME), not of a FIFO topic: those have no subscribers by email."
  }

  validation {
    condition     = try(var.weekly_report.kms_key_arn, null) == null ? true : can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/.+$", var.weekly_report.kms_key_arn))
    error_message = "weekly_report.kms_key_arn is the ARN of a key (arn:aws:kms:REGION:ACCOUNT:key/ID), not of an alias: IAM policies cannot name an alias."
  }
}

variable "tags" {
  description = "Tags for all resources of the module. Nodes get the tags of their EC2NodeClass."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "wake_endpoint" {
  description = "For clusters whose controlPlaneEgressMode is CUSTOMER_ROUTED or CUSTOMER_ISOLATED, for which the installer does not install the webhook, because Events would be delayed if the API server could not reach it. \"function-url\": the route of the control plane reaches the internet, so register the Function URL. An https:// address: that of a proxy of yours, with a certificate that the API server trusts, which passes requests on to the Function URL, path included. null (default): by controlPlaneEgressMode."
  type        = string
  default     = null

  validation {
    condition     = var.wake_endpoint == null || var.wake_endpoint == "function-url" ? true : can(regex("^https://[^/?#]+/?$", var.wake_endpoint))
    error_message = "wake_endpoint must be \"function-url\" or an https:// address without a path, such as https://wake.example.internal."
  }
}

variable "remove_nodes_on_destroy" {
  description = "Whether terraform destroy first deletes all EC2NodeClasses and the NodePools and NodeClaims that refer to one, and waits, up to the installer's timeout, until their nodes are drained and their instances gone. false (default) leaves the nodes as they are, as a move to Karpenter needs."
  type        = bool
  default     = false
  nullable    = false
}
