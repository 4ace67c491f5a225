locals {
  own_topic = var.create && var.alarms.enabled && var.alarms.topic_arn == null
  topic_arn = local.own_topic ? aws_sns_topic.alarms[0].arn : var.alarms.topic_arn

  # The names that ElastiCache gives nodes in cluster mode: <group>-<shard>-<node>. With
  # autoscaling, all possible nodes. The alarm of a node that does not exist stays silent.
  max_shards   = local.cluster == null ? 0 : try(var.cluster.autoscaling.shards.max, var.cluster.shards)
  max_replicas = local.cluster == null ? 0 : try(var.cluster.autoscaling.replicas.max, var.cluster.replicas_per_shard)
  nodes = [
    for pair in setproduct(range(1, local.max_shards + 1), range(1, local.max_replicas + 2)) :
    format("%s-%04d-%03d", var.name, pair[0], pair[1])
  ]

  node_alarms = merge(
    {
      EngineCPUUtilization = {
        statistic = "Average", periods = 3, threshold = var.alarms.engine_cpu_percent
        meaning   = "The engine is short of CPU: add shards or larger nodes."
      }
      DatabaseMemoryUsagePercentage = {
        statistic = "Maximum", periods = 3, threshold = var.alarms.memory_percent
        meaning   = "Memory runs out; when it has, writes are refused: add shards or larger nodes."
      }
      Evictions = {
        statistic = "Sum", periods = 1, threshold = 0
        meaning   = "Pages are evicted, which noeviction rules out: look at the parameter group."
      }
      ReplicationLag = {
        statistic = "Maximum", periods = 3, threshold = var.alarms.replication_lag_seconds
        meaning   = "A replica is behind, and a failover to it would lose that much."
      }
      CurrConnections = {
        statistic = "Maximum", periods = 3, threshold = var.alarms.connections
        meaning   = "Connections are near the limit of a node: fewer processes, or a smaller pool_size in --redis."
      }
      NetworkBandwidthOutAllowanceExceeded = {
        statistic = "Sum", periods = 3, threshold = 0
        meaning   = "The node sends more than its bandwidth allows and is slowed down: add shards or larger nodes."
      }
      IamAuthenticationExpirations = {
        statistic = "Sum", periods = 1, threshold = 0
        meaning   = "Connections were cut after 12 hours: a client does not renew them."
      }
      CommandAuthorizationFailures = {
        statistic = "Sum", periods = 1, threshold = 0
        meaning   = "A command was refused: somebody else's, or of a feedfilter that is newer than this module."
      }
    },
    # With sync there is no lag.
    local.durability != "async" ? {} : {
      DurabilityLag = {
        statistic = "Maximum", periods = 1, threshold = var.alarms.durability_lag_ms
        meaning   = "The durable log is behind; at 10,000 ms writes are refused."
      }
    },
  )

  serverless_alarms = local.serverless == null ? {} : {
    ThrottledCmds = {
      statistic = "Sum", periods = 1, threshold = 0
      meaning   = "Commands were refused: the load grew too fast or reached ecpu_per_second.maximum."
    }
    ElastiCacheProcessingUnits = {
      statistic = "Sum", periods = 3
      threshold = var.serverless.ecpu_per_second.maximum * local.alarm_period_s * var.alarms.serverless_percent / 100
      meaning   = "The load is near ecpu_per_second.maximum, above which commands are refused."
    }
    BytesUsedForCache = {
      statistic = "Maximum", periods = 1
      threshold = var.serverless.data_storage_gb.maximum * pow(10, 9) * var.alarms.serverless_percent / 100
      meaning   = "The data is near data_storage_gb.maximum, at which what was seen is evicted and writes are refused."
    }
    Evictions = {
      statistic = "Sum", periods = 1, threshold = 0
      meaning   = "What was seen is evicted: data_storage_gb.maximum is reached."
    }
    IamAuthenticationExpirations = {
      statistic = "Sum", periods = 1, threshold = 0
      meaning   = "Connections were cut after 12 hours: a client does not renew them."
    }
    CommandAuthorizationFailures = {
      statistic = "Sum", periods = 1, threshold = 0
      meaning   = "A command was refused: somebody else's, or of a feedfilter that is newer than this module."
    }
  }

  alarm_period_s = 300
  alarms = !var.alarms.enabled ? {} : merge(
    {
      for pair in setproduct(local.nodes, keys(local.node_alarms)) : "${pair[0]} ${pair[1]}" => merge(local.node_alarms[pair[1]], {
        metric = pair[1], dimensions = { CacheClusterId = pair[0], CacheNodeId = "0001" }
      })
    },
    {
      for metric, alarm in local.serverless_alarms : "${var.name} ${metric}" => merge(alarm, {
        metric = metric, dimensions = { clusterId = var.name }
      })
    },
  )
}

resource "aws_sns_topic" "alarms" {
  count = local.own_topic ? 1 : 0

  name              = "${var.name}-cache-alarms"
  kms_master_key_id = local.kms_key_arn
  tags              = var.tags
}

resource "aws_sns_topic_subscription" "emails" {
  for_each = local.own_topic ? var.alarms.emails : []

  topic_arn = aws_sns_topic.alarms[0].arn
  protocol  = "email"
  endpoint  = each.value
}

resource "aws_cloudwatch_metric_alarm" "this" {
  for_each = local.alarms

  alarm_name          = each.key
  alarm_description   = each.value.meaning
  namespace           = "AWS/ElastiCache"
  metric_name         = each.value.metric
  dimensions          = each.value.dimensions
  statistic           = each.value.statistic
  period              = local.alarm_period_s
  evaluation_periods  = each.value.periods
  comparison_operator = "GreaterThanThreshold"
  threshold           = each.value.threshold
  treat_missing_data  = "notBreaching"
  alarm_actions       = [local.topic_arn]
  ok_actions          = [local.topic_arn]
  tags                = var.tags
}
