data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}
data "aws_region" "current" {}

locals {
  account   = data.aws_caller_identity.current.account_id
  partition = data.aws_partition.current.partition
  region    = data.aws_region.current.id

  iam       = var.auth_secret == null
  user_name = coalesce(var.user_name, var.name)

  # What to make, if anything.
  cluster    = var.create ? var.cluster : null
  serverless = var.create ? var.serverless : null
}

# The cache: a replication group or a serverless cache.

locals {
  # Autoscaling changes the counts, and Terraform must not set them back. ignore_changes cannot
  # depend on a variable, so there are two equal resources.
  replication_groups = {
    fixed  = local.cluster != null && try(local.cluster.autoscaling, null) == null
    scaled = local.cluster != null && try(local.cluster.autoscaling, null) != null
  }

  # One attribute at a time: a whole group has a password, so all of it would be sensitive.
  configuration_endpoint = one(concat(
    aws_elasticache_replication_group.fixed[*].configuration_endpoint_address,
    aws_elasticache_replication_group.scaled[*].configuration_endpoint_address,
  ))
  member_clusters = flatten([
    for nodes in concat(
      aws_elasticache_replication_group.fixed[*].member_clusters,
      aws_elasticache_replication_group.scaled[*].member_clusters,
    ) : tolist(nodes)
  ])
  cache_arn = one(concat(
    aws_elasticache_replication_group.fixed[*].arn,
    aws_elasticache_replication_group.scaled[*].arn,
    aws_elasticache_serverless_cache.this[*].arn,
  ))

  # Null unless requested: not all versions and node types support durability.
  durability = local.cluster == null ? null : can(regex("^9\\.", var.cluster.engine_version)) ? var.cluster.durability : null

  final_snapshot_name = try(coalesce(var.cluster.final_snapshot_name), "${var.name}-final")
}

resource "aws_elasticache_replication_group" "fixed" {
  count = local.replication_groups.fixed ? 1 : 0

  replication_group_id = var.name
  description          = "Pages of feedfilter"

  engine                     = "valkey"
  engine_version             = var.cluster.engine_version
  auto_minor_version_upgrade = var.cluster.auto_minor_version_upgrade
  parameter_group_name       = aws_elasticache_parameter_group.this[0].name
  durability                 = local.durability

  node_type                  = var.cluster.node_type
  cluster_mode               = "enabled"
  num_node_groups            = var.cluster.shards
  replicas_per_node_group    = var.cluster.replicas_per_shard
  automatic_failover_enabled = true
  multi_az_enabled           = var.cluster.multi_az

  port               = var.cluster.port
  network_type       = var.network_type
  ip_discovery       = local.ip_discovery
  subnet_group_name  = local.subnet_group_name
  security_group_ids = local.security_group_ids

  at_rest_encryption_enabled = true
  kms_key_id                 = local.kms_key_arn
  transit_encryption_enabled = true
  transit_encryption_mode    = "required"
  user_group_ids             = local.iam ? [aws_elasticache_user_group.this[0].user_group_id] : null
  auth_token                 = var.auth_token
  auth_token_update_strategy = local.iam ? null : var.auth_token_update_strategy

  snapshot_name             = var.cluster.snapshot_name
  snapshot_retention_limit  = var.snapshot_retention_days
  snapshot_window           = var.cluster.snapshot_window
  final_snapshot_identifier = var.cluster.final_snapshot ? local.final_snapshot_name : null
  maintenance_window        = var.cluster.maintenance_window
  apply_immediately         = var.cluster.apply_immediately
  notification_topic_arn    = var.notification_topic_arn

  dynamic "log_delivery_configuration" {
    for_each = aws_cloudwatch_log_group.this

    content {
      destination      = log_delivery_configuration.value.name
      destination_type = "cloudwatch-logs"
      log_format       = "json"
      log_type         = log_delivery_configuration.key
    }
  }

  dynamic "timeouts" {
    for_each = var.timeouts[*]

    content {
      create = timeouts.value.create
      update = timeouts.value.update
      delete = timeouts.value.delete
    }
  }

  tags = var.tags
}

resource "aws_elasticache_replication_group" "scaled" {
  count = local.replication_groups.scaled ? 1 : 0

  replication_group_id = var.name
  description          = "Pages of feedfilter"

  engine                     = "valkey"
  engine_version             = var.cluster.engine_version
  auto_minor_version_upgrade = var.cluster.auto_minor_version_upgrade
  parameter_group_name       = aws_elasticache_parameter_group.this[0].name
  durability                 = local.durability

  node_type                  = var.cluster.node_type
  cluster_mode               = "enabled"
  num_node_groups            = var.cluster.shards
  replicas_per_node_group    = var.cluster.replicas_per_shard
  automatic_failover_enabled = true
  multi_az_enabled           = var.cluster.multi_az

  port               = var.cluster.port
  network_type       = var.network_type
  ip_discovery       = local.ip_discovery
  subnet_group_name  = local.subnet_group_name
  security_group_ids = local.security_group_ids

  at_rest_encryption_enabled = true
  kms_key_id                 = local.kms_key_arn
  transit_encryption_enabled = true
  transit_encryption_mode    = "required"
  user_group_ids             = local.iam ? [aws_elasticache_user_group.this[0].user_group_id] : null
  auth_token                 = var.auth_token
  auth_token_update_strategy = local.iam ? null : var.auth_token_update_strategy

  snapshot_name             = var.cluster.snapshot_name
  snapshot_retention_limit  = var.snapshot_retention_days
  snapshot_window           = var.cluster.snapshot_window
  final_snapshot_identifier = var.cluster.final_snapshot ? local.final_snapshot_name : null
  maintenance_window        = var.cluster.maintenance_window
  apply_immediately         = var.cluster.apply_immediately
  notification_topic_arn    = var.notification_topic_arn

  dynamic "log_delivery_configuration" {
    for_each = aws_cloudwatch_log_group.this

    content {
      destination      = log_delivery_configuration.value.name
      destination_type = "cloudwatch-logs"
      log_format       = "json"
      log_type         = log_delivery_configuration.key
    }
  }

  dynamic "timeouts" {
    for_each = var.timeouts[*]

    content {
      create = timeouts.value.create
      update = timeouts.value.update
      delete = timeouts.value.delete
    }
  }

  tags = var.tags

  lifecycle {
    ignore_changes = [num_node_groups, replicas_per_node_group]
  }
}

resource "aws_elasticache_serverless_cache" "this" {
  count = local.serverless != null ? 1 : 0

  name        = var.name
  description = "Pages of feedfilter"

  engine               = "valkey"
  major_engine_version = var.serverless.major_engine_version

  subnet_ids         = var.subnet_ids
  security_group_ids = local.security_group_ids
  # Always encrypted at rest and in transit. You can choose the key.
  kms_key_id    = local.kms_key_arn
  user_group_id = aws_elasticache_user_group.this[0].user_group_id

  snapshot_retention_limit = var.snapshot_retention_days
  daily_snapshot_time      = var.serverless.daily_snapshot_time
  snapshot_arns_to_restore = var.serverless.snapshot_arns

  cache_usage_limits {
    data_storage {
      minimum = var.serverless.data_storage_gb.minimum
      maximum = var.serverless.data_storage_gb.maximum
      unit    = "GB"
    }
    ecpu_per_second {
      minimum = var.serverless.ecpu_per_second.minimum
      maximum = var.serverless.ecpu_per_second.maximum
    }
  }

  dynamic "timeouts" {
    for_each = var.timeouts[*]

    content {
      create = timeouts.value.create
      update = timeouts.value.update
      delete = timeouts.value.delete
    }
  }

  tags = var.tags
}

resource "aws_elasticache_parameter_group" "this" {
  count = local.cluster != null ? 1 : 0

  # The name includes the family: a new major version gets a new group before the old one goes.
  name        = "${var.name}-valkey${split(".", var.cluster.engine_version)[0]}"
  description = "Parameters of ${var.name}"
  family      = "valkey${split(".", var.cluster.engine_version)[0]}"

  # A page that does not fit is refused with an error, and the ledger answers for it. The default,
  # volatile-lru, would evict seen posts silently.
  parameter {
    name  = "maxmemory-policy"
    value = "noeviction"
  }
  # Shards hold pages by hash slot. One shard can become many without downtime.
  parameter {
    name  = "cluster-enabled"
    value = "yes"
  }
  # Memory for replication and snapshots, which may copy pages that are being written.
  parameter {
    name  = "reserved-memory-percent"
    value = "25"
  }
  dynamic "parameter" {
    for_each = var.cluster.parameters

    content {
      name  = parameter.key
      value = parameter.value
    }
  }

  tags = var.tags

  lifecycle {
    create_before_destroy = true

    # These conditions, from windows.tf, are not about parameters. A failure refuses the whole plan.
    precondition {
      condition     = local.maintenance_minutes >= 60 && local.snapshot_minutes >= 60
      error_message = "cluster.maintenance_window and cluster.snapshot_window must be of 60 minutes at least."
    }
    precondition {
      condition     = local.windows_are_apart
      error_message = "cluster.maintenance_window and cluster.snapshot_window, which is on every day, must not overlap."
    }
  }
}
