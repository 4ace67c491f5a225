variable "create" {
  type        = bool
  default     = true
  nullable    = false
  description = <<-EOT
    False makes nothing, and destroys what the module has made. Every output is then null or empty,
    and only `name` is required.
  EOT
}

variable "name" {
  type        = string
  description = <<-EOT
    Name of the cache, its user and its user group; alarms and logs have it in their names. Up to 40
    lower-case letters, digits and single hyphens. The first character is a letter.
  EOT

  validation {
    condition     = can(regex("^[a-z](-?[a-z0-9])*$", var.name)) && length(var.name) <= 40
    error_message = "The name must be 1 to 40 lower-case letters, digits and single hyphens, a letter first and no hyphen last."
  }
}

variable "vpc_id" {
  type        = string
  default     = null
  description = "VPC of the module's security group. Required without `security_group_ids`."

  validation {
    condition     = !var.create || var.vpc_id != null || var.security_group_ids != null
    error_message = "Give vpc_id: the module makes a security group there, unless you give security_group_ids."
  }
  validation {
    condition     = var.vpc_id == null || var.security_group_ids == null
    error_message = "With security_group_ids the module makes no security group: leave vpc_id out."
  }
}

variable "subnet_ids" {
  type        = set(string)
  default     = null
  description = <<-EOT
    Private subnets for the cache, in two or more availability zones. Required without
    `subnet_group_name`.
  EOT

  validation {
    condition     = !var.create || var.subnet_ids != null || var.subnet_group_name != null
    error_message = "Give subnet_ids or, for a cluster, the subnet_group_name of your own group."
  }
  validation {
    condition     = var.subnet_ids == null ? true : length(var.subnet_ids) >= 2
    error_message = "Give at least two subnets, in different availability zones."
  }
  validation {
    condition     = var.subnet_ids == null || var.subnet_group_name == null
    error_message = "With subnet_group_name the module makes no subnet group: leave subnet_ids out."
  }
}

variable "subnet_group_name" {
  type        = string
  default     = null
  description = <<-EOT
    Your own ElastiCache subnet group for a cluster, instead of `subnet_ids`. A change makes a new
    replication group.
  EOT

  validation {
    condition     = var.subnet_group_name == null || var.serverless == null
    error_message = "A serverless cache has no subnet group: give subnet_ids instead of subnet_group_name."
  }
}

variable "client_security_group_ids" {
  type        = map(string)
  default     = {}
  nullable    = false
  description = <<-EOT
    The only security groups that may connect. Choose a name for each:
    { service = aws_security_group.feedfilter.id }. Required without `security_group_ids`.
  EOT

  validation {
    condition     = !var.create || length(var.client_security_group_ids) > 0 || var.security_group_ids != null
    error_message = "Give at least one security group; without one nothing can connect."
  }
  validation {
    condition     = length(var.client_security_group_ids) == 0 || var.security_group_ids == null
    error_message = "With security_group_ids the module makes no rules: leave client_security_group_ids out."
  }
}

variable "security_group_ids" {
  type        = set(string)
  default     = null
  description = <<-EOT
    Your own security groups for the cache, instead of `vpc_id` and `client_security_group_ids`. The
    module makes none. They must let feedfilter in: at `cluster.port`, or 6379 and 6380 of a
    serverless cache.
  EOT

  validation {
    condition     = var.security_group_ids == null ? true : length(var.security_group_ids) > 0
    error_message = "security_group_ids must have at least one group; leave it out for a group of the module."
  }
}

variable "network_type" {
  type        = string
  default     = null
  description = <<-EOT
    Addresses of a cluster: `ipv4`, `dual_stack` or `ipv6`. The subnets must have them. Default:
    that of AWS, which is `ipv4`. A change makes a new replication group.
  EOT

  validation {
    condition     = var.network_type == null ? true : contains(["ipv4", "dual_stack", "ipv6"], var.network_type)
    error_message = "network_type must be ipv4, dual_stack or ipv6."
  }
  validation {
    condition     = var.network_type == null || var.serverless == null
    error_message = "network_type is for a cluster: leave it out, and AWS chooses by the subnets of a serverless cache."
  }
}

variable "notification_topic_arn" {
  type        = string
  default     = null
  description = <<-EOT
    SNS topic for the events of a cluster, such as failovers. ElastiCache wants a topic of the same
    account and region that is not encrypted and whose policy uses aws:SourceOwner, not
    aws:SourceAccount. So the alarm topic of the module does not do.
  EOT

  validation {
    condition     = var.notification_topic_arn == null ? true : can(regex("^arn:[^:]+:sns:[^:]+:[0-9]{12}:[^:]+$", var.notification_topic_arn))
    error_message = "notification_topic_arn must be the ARN of an SNS topic."
  }
  validation {
    condition     = var.notification_topic_arn == null || var.serverless == null
    error_message = "A serverless cache sends its events to EventBridge, not to a topic: leave notification_topic_arn out."
  }
}

variable "timeouts" {
  type = object({
    create = optional(string)
    update = optional(string)
    delete = optional(string)
  })
  default     = null
  description = <<-EOT
    How long Terraform waits for the replication group or serverless cache, such as
    { update = "90m" }. Default: 40 to 80 minutes.

    - `create`, `update`, `delete`: numbers with h, m or s.
  EOT

  validation {
    condition = var.timeouts == null ? true : alltrue([
      for time in values(var.timeouts) : time == null ? true : can(regex("^([0-9]+[hms])+$", time))
    ])
    error_message = "timeouts must be numbers with h, m or s, such as 90m or 1h30m."
  }
}

variable "cluster" {
  type = object({
    node_type                  = string
    engine_version             = optional(string, "9.0")
    shards                     = optional(number, 1)
    replicas_per_shard         = optional(number, 1)
    multi_az                   = optional(bool, true)
    durability                 = optional(string)
    port                       = optional(number, 6379)
    parameters                 = optional(map(string), {})
    maintenance_window         = optional(string, "sun:05:00-sun:06:00")
    snapshot_window            = optional(string, "03:00-04:00")
    snapshot_name              = optional(string)
    final_snapshot             = optional(bool, true)
    final_snapshot_name        = optional(string)
    apply_immediately          = optional(bool, false)
    auto_minor_version_upgrade = optional(bool, false)
    autoscaling = optional(object({
      shards = optional(object({
        min                = number
        max                = number
        engine_cpu_percent = optional(number, 60)
        memory_percent     = optional(number, 60)
      }))
      replicas = optional(object({
        min                = number
        max                = number
        engine_cpu_percent = optional(number, 60)
      }))
    }))
  })
  default     = null
  description = <<-EOT
    A cache of nodes, in cluster mode. Set this or `serverless`.

    - `node_type`: such as cache.r7g.large.
    - `engine_version`: the version of Valkey: 7.2, 8.0, 8.1, 8.2, 9.0 or 9.1.
    - `shards`, `replicas_per_shard`: numbers of shards and replicas, up to 500 nodes in total.
      Nodes that autoscaling may add count too. ElastiCache allows 90 unless you ask for more. With
      `autoscaling` these are the numbers at the start: later changes have no effect.
    - `multi_az`: put primaries and replicas in different availability zones. Needs a replica.
    - `durability`: what a failover may lose. `disabled`: writes that replicas have not received.
      `async`: up to 10 seconds of writes. `sync`: nothing, but each write waits. Blocks, hides and
      likes do not need it: feedfilter rebuilds them from the SQL ledger, within the staleness
      bound. `seen` is only in the cache. AWS can switch between `sync` and `async` later, but not
      from or to `disabled`. Needs Valkey 9.0, Multi-AZ and nodes of r6g, r7g, r8g, m6g, m7g, m8g,
      c7gn or c8gn. Default: the default of AWS, which is `disabled`.
    - `port`: the port of all nodes.
    - `parameters`: more parameters of the parameter group, except those that the module sets.
    - `maintenance_window`, `snapshot_window`: ddd:hh:mm-ddd:hh:mm and hh:mm-hh:mm in UTC. Each
      lasts an hour or more. They must not overlap.
    - `snapshot_name`: restore the group from this snapshot. A change makes a new group.
    - `final_snapshot`: take a snapshot before the group is destroyed.
    - `final_snapshot_name`: the name of that snapshot. Default: <name>-final.
    - `apply_immediately`: make changes at once instead of in the maintenance window.
    - `auto_minor_version_upgrade`: let AWS upgrade to newer minor versions. Then raise
      `engine_version` to match before you apply again: see the README.
    - `autoscaling`: keep engine CPU and memory near a percentage, 35 to 70. `shards` scales by the
      CPU of primaries and by memory, `replicas` by the CPU of replicas. Needs nodes of large to
      2xlarge. Replicas help only if feeds read from them: append &reader=true to redis_url. To turn
      it on or off for an existing group, see the README.
  EOT

  validation {
    condition     = var.cluster == null || var.serverless == null
    error_message = "Give either cluster or serverless, not both."
  }
  validation {
    condition     = !var.create || var.cluster != null || var.serverless != null
    error_message = "Give cluster or serverless."
  }
  validation {
    condition     = var.cluster == null ? true : can(regex("^cache\\.[a-z][a-z0-9]*\\.[a-z0-9]+$", var.cluster.node_type))
    error_message = "cluster.node_type must be a node type of ElastiCache, such as cache.r7g.large."
  }
  validation {
    condition     = var.cluster == null ? true : contains(["7.2", "8.0", "8.1", "8.2", "9.0", "9.1"], var.cluster.engine_version)
    error_message = "cluster.engine_version must be a version of Valkey that ElastiCache has: 7.2, 8.0, 8.1, 8.2, 9.0 or 9.1."
  }
  validation {
    condition = var.cluster == null ? true : (
      contains(range(1, 501), var.cluster.shards) && contains(range(6), var.cluster.replicas_per_shard)
    )
    error_message = "cluster.shards must be 1 to 500, cluster.replicas_per_shard 0 to 5."
  }
  validation {
    condition     = var.cluster == null ? true : !var.cluster.multi_az || var.cluster.replicas_per_shard >= 1
    error_message = "Multi-AZ needs a replica: set cluster.replicas_per_shard to 1 or more, or cluster.multi_az to false."
  }
  validation {
    condition = var.cluster == null ? true : (
      try(var.cluster.autoscaling.shards.max, var.cluster.shards) *
      (1 + try(var.cluster.autoscaling.replicas.max, var.cluster.replicas_per_shard)) <= 500
    )
    error_message = "A cluster has at most 500 nodes, those that autoscaling may add included: shards times 1 + replicas."
  }
  validation {
    condition     = contains(["disabled", "async", "sync"], try(coalesce(var.cluster.durability), "disabled"))
    error_message = "cluster.durability must be disabled, async or sync."
  }
  validation {
    condition = try(coalesce(var.cluster.durability), "disabled") == "disabled" ? true : (
      can(regex("^9\\.", var.cluster.engine_version)) && var.cluster.multi_az &&
      can(regex("^cache\\.(r6g|r7g|r8g|m6g|m7g|m8g|c7gn|c8gn)\\.", var.cluster.node_type))
    )
    error_message = "cluster.durability needs Valkey 9.0, cluster.multi_az and nodes of r6g, r7g, r8g, m6g, m7g, m8g, c7gn or c8gn."
  }
  validation {
    condition     = var.cluster == null ? true : var.cluster.port >= 1024 && var.cluster.port <= 65535 && floor(var.cluster.port) == var.cluster.port
    error_message = "cluster.port must be 1024 to 65535."
  }
  validation {
    condition = var.cluster == null ? true : (
      length(setintersection(keys(var.cluster.parameters), ["maxmemory-policy", "cluster-enabled", "reserved-memory-percent"])) == 0
    )
    error_message = "cluster.parameters may not set maxmemory-policy, cluster-enabled or reserved-memory-percent, which the module sets."
  }
  validation {
    condition = var.cluster == null ? true : (
      can(regex("^${local.weekday}:${local.time_of_day}-${local.weekday}:${local.time_of_day}$", var.cluster.maintenance_window)) &&
      can(regex("^${local.time_of_day}-${local.time_of_day}$", var.cluster.snapshot_window))
    )
    error_message = "cluster.maintenance_window must be ddd:hh:mm-ddd:hh:mm and cluster.snapshot_window hh:mm-hh:mm."
  }
  validation {
    condition = try(var.cluster.autoscaling, null) == null ? true : (
      can(regex("^cache\\.[mrc][0-9][a-z]*\\.(large|xlarge|2xlarge)$", var.cluster.node_type))
    )
    error_message = "cluster.autoscaling needs nodes of large to 2xlarge, of the families m, r or c: not t4g."
  }
  validation {
    condition = try(var.cluster.autoscaling, null) == null ? true : (
      var.cluster.autoscaling.shards != null || var.cluster.autoscaling.replicas != null
    )
    error_message = "cluster.autoscaling must have shards or replicas."
  }
  validation {
    condition = try(var.cluster.autoscaling.shards, null) == null ? true : (
      contains(range(1, 501), var.cluster.autoscaling.shards.min) && var.cluster.autoscaling.shards.min <= var.cluster.shards &&
      var.cluster.shards <= var.cluster.autoscaling.shards.max && contains(range(1, 501), var.cluster.autoscaling.shards.max)
    )
    error_message = "cluster.autoscaling.shards: must be whole, 1 <= min <= cluster.shards <= max <= 500."
  }
  validation {
    condition = try(var.cluster.autoscaling.replicas, null) == null ? true : (
      contains(range(1, 6), var.cluster.autoscaling.replicas.min) && var.cluster.autoscaling.replicas.min <= var.cluster.replicas_per_shard &&
      var.cluster.replicas_per_shard <= var.cluster.autoscaling.replicas.max && contains(range(1, 6), var.cluster.autoscaling.replicas.max)
    )
    error_message = "cluster.autoscaling.replicas: must be whole, 1 <= min <= cluster.replicas_per_shard <= max <= 5."
  }
  validation {
    condition = alltrue([
      for percent in [
        try(var.cluster.autoscaling.shards.engine_cpu_percent, 60),
        try(var.cluster.autoscaling.shards.memory_percent, 60),
        try(var.cluster.autoscaling.replicas.engine_cpu_percent, 60),
      ] : percent >= 35 && percent <= 70
    ])
    error_message = "The percentages of cluster.autoscaling must be 35 to 70."
  }
}

variable "serverless" {
  type = object({
    major_engine_version = optional(string, "8")
    data_storage_gb = object({
      minimum = optional(number)
      maximum = number
    })
    ecpu_per_second = object({
      minimum = optional(number)
      maximum = number
    })
    daily_snapshot_time = optional(string, "03:00")
    snapshot_arns       = optional(list(string))
  })
  default     = null
  description = <<-EOT
    A serverless cache. Set this or `cluster`.

    - `major_engine_version`: the version of Valkey: 7, 8 or 9.
    - `data_storage_gb`: 1 to 5000. At the maximum, ElastiCache evicts `seen` and empty pages, then
      refuses writes. feedfilter rebuilds pages from the ledger. You pay for the minimum even if you
      do not use it.
    - `ecpu_per_second`: 1000 to 15000000. Above the maximum, commands are refused.
    - `daily_snapshot_time`: hh:mm in UTC.
    - `snapshot_arns`: restore the cache from these snapshots. A change makes a new cache.
  EOT

  validation {
    condition     = var.serverless == null ? true : contains(["7", "8", "9"], var.serverless.major_engine_version)
    error_message = "serverless.major_engine_version must be 7, 8 or 9."
  }
  validation {
    condition = var.serverless == null ? true : (
      1 <= coalesce(var.serverless.data_storage_gb.minimum, 1) && var.serverless.data_storage_gb.maximum <= 5000 &&
      coalesce(var.serverless.data_storage_gb.minimum, 1) <= var.serverless.data_storage_gb.maximum &&
      alltrue([for gb in values(var.serverless.data_storage_gb) : gb == null ? true : floor(gb) == gb])
    )
    error_message = "serverless.data_storage_gb: must be whole, 1 <= minimum <= maximum <= 5000."
  }
  validation {
    condition = var.serverless == null ? true : (
      1000 <= coalesce(var.serverless.ecpu_per_second.minimum, 1000) && var.serverless.ecpu_per_second.maximum <= 15000000 &&
      coalesce(var.serverless.ecpu_per_second.minimum, 1000) <= var.serverless.ecpu_per_second.maximum &&
      alltrue([for ecpu in values(var.serverless.ecpu_per_second) : ecpu == null ? true : floor(ecpu) == ecpu])
    )
    error_message = "serverless.ecpu_per_second: must be whole, 1000 <= minimum <= maximum <= 15000000."
  }
  validation {
    condition     = var.serverless == null ? true : can(regex("^${local.time_of_day}$", var.serverless.daily_snapshot_time))
    error_message = "serverless.daily_snapshot_time must be hh:mm."
  }
}

variable "kms_key_arn" {
  type        = string
  default     = null
  description = <<-EOT
    KMS key for data, snapshots, logs and the alarm topic. Default: a new key with yearly rotation.
    The policy of your own key must allow logs.<region>.amazonaws.com and cloudwatch.amazonaws.com
    to use it. Otherwise logs and alarms do not arrive.
  EOT

  validation {
    condition     = var.kms_key_arn == null ? true : can(regex("^arn:[^:]+:kms:[^:]+:[0-9]{12}:key/.+$", var.kms_key_arn))
    error_message = "kms_key_arn must be the ARN of a key, not of an alias."
  }
}

variable "user_name" {
  type        = string
  default     = null
  description = <<-EOT
    ElastiCache user that feedfilter connects as, with IAM tokens. Default: the name of the cache.
    Up to 40 lower-case letters, digits and single hyphens. The first character is a letter.
  EOT

  validation {
    condition     = var.user_name == null ? true : can(regex("^[a-z](-?[a-z0-9])*$", var.user_name)) && length(var.user_name) <= 40
    error_message = "user_name must be 1 to 40 lower-case letters, digits and single hyphens, a letter first and no hyphen last."
  }
}

variable "auth_secret" {
  type = object({
    arn         = string
    kms_key_arn = optional(string)
  })
  default     = null
  description = <<-EOT
    Connect with a password (an AUTH token) instead of IAM. Needs `auth_token` and `cluster`. It is
    weaker: the password does not expire, is in Terraform's state, and allows every command on every
    key.

    - `arn`: the secret in Secrets Manager that holds the password.
    - `kms_key_arn`: the KMS key of the secret, if it has its own.
  EOT

  validation {
    condition     = var.auth_secret == null ? true : can(regex("^arn:[^:]+:secretsmanager:[^:]+:[0-9]{12}:secret:.+$", var.auth_secret.arn))
    error_message = "auth_secret.arn must be the ARN of a secret in Secrets Manager."
  }
  validation {
    condition     = var.auth_secret == null || var.serverless == null
    error_message = "A serverless cache has no AUTH token: leave auth_secret out and connect with IAM."
  }
  validation {
    condition     = (var.auth_secret == null) == (var.auth_token == null)
    error_message = "auth_secret and auth_token go together."
  }
}

variable "auth_token" {
  type        = string
  default     = null
  sensitive   = true
  description = "The password in `auth_secret`: 16 to 128 letters, digits and characters of !&#$^<>-."

  validation {
    condition     = var.auth_token == null ? true : can(regex("^[A-Za-z0-9!&#$^<>-]{16,128}$", var.auth_token))
    error_message = "auth_token must be 16 to 128 letters, digits and characters of !&#$^<>-."
  }
}

variable "auth_token_update_strategy" {
  type        = string
  default     = "ROTATE"
  nullable    = false
  description = "How a new `auth_token` replaces the old one. ROTATE: both are valid. SET: only the new one is."

  validation {
    condition     = contains(["ROTATE", "SET"], var.auth_token_update_strategy)
    error_message = "auth_token_update_strategy must be ROTATE or SET."
  }
}

variable "snapshot_retention_days" {
  type        = number
  default     = 7
  description = <<-EOT
    Days to keep daily snapshots, 1 to 35. 0 takes none, and needs `allow_no_snapshots`. A snapshot
    of any age is safe to restore: feedfilter rebuilds pages that are stale.
  EOT

  validation {
    condition     = contains(range(36), var.snapshot_retention_days)
    error_message = "snapshot_retention_days must be 0 to 35."
  }
  validation {
    condition     = var.snapshot_retention_days > 0 || var.allow_no_snapshots
    error_message = "Without snapshots what was seen cannot be brought back. If that is what you want, set allow_no_snapshots to true."
  }
}

variable "allow_no_snapshots" {
  type        = bool
  default     = false
  description = "Accept `snapshot_retention_days = 0`."
}

variable "log_retention_days" {
  type        = number
  default     = 30
  description = <<-EOT
    Days to keep the engine log and the slow log of a cluster in CloudWatch. CloudWatch accepts 1,
    3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365 and some longer times.
  EOT

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 3653], var.log_retention_days)
    error_message = "log_retention_days must be a number of days that CloudWatch knows; 0, for ever, is not accepted."
  }
}

variable "alarms" {
  type = object({
    enabled                 = optional(bool, true)
    topic_arn               = optional(string)
    emails                  = optional(set(string), [])
    engine_cpu_percent      = optional(number, 80)
    memory_percent          = optional(number, 75)
    replication_lag_seconds = optional(number, 10)
    connections             = optional(number, 50000)
    durability_lag_ms       = optional(number, 5000)
    serverless_percent      = optional(number, 80)
  })
  default     = {}
  nullable    = false
  description = <<-EOT
    CloudWatch alarms for each metric and node, and where they go.

    - `enabled`: false for no alarms.
    - `topic_arn`: the SNS topic to notify. Default: a new topic, encrypted with the KMS key.
    - `emails`: addresses that subscribe to the new topic. Each must confirm.
    - `engine_cpu_percent`, `memory_percent`, `replication_lag_seconds`, `connections`,
      `durability_lag_ms`: thresholds for the nodes of a cluster. ElastiCache allows 65,000
      connections to a node.
    - `serverless_percent`: threshold for storage and ECPUs, in percent of their maximum.
  EOT

  validation {
    condition     = length(var.alarms.emails) == 0 || (var.alarms.enabled && var.alarms.topic_arn == null)
    error_message = "alarms.emails subscribe to the module's own topic: leave alarms.topic_arn out and alarms enabled."
  }
}

variable "tags" {
  type        = map(string)
  default     = {}
  description = "Tags for every resource that can have them."
}
