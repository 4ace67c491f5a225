# Only scaled groups have autoscaling: see main.tf.

locals {
  shard_scaling   = try(local.cluster.autoscaling.shards, null)
  replica_scaling = try(local.cluster.autoscaling.replicas, null)

  # The metric that a policy follows. Commands run in one thread of a node, so it is the CPU of
  # the engine, not of the node.
  shard_policies = local.shard_scaling == null ? {} : {
    cpu    = { metric = "ElastiCachePrimaryEngineCPUUtilization", target = local.shard_scaling.engine_cpu_percent }
    memory = { metric = "ElastiCacheDatabaseMemoryUsageCountedForEvictPercentage", target = local.shard_scaling.memory_percent }
  }
}

resource "aws_appautoscaling_target" "shards" {
  count = local.shard_scaling != null ? 1 : 0

  service_namespace  = "elasticache"
  resource_id        = "replication-group/${aws_elasticache_replication_group.scaled[0].replication_group_id}"
  scalable_dimension = "elasticache:replication-group:NodeGroups"
  min_capacity       = local.shard_scaling.min
  max_capacity       = local.shard_scaling.max
  tags               = var.tags
}

resource "aws_appautoscaling_policy" "shards" {
  for_each = local.shard_policies

  name               = "${var.name}-shards-${each.key}"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = aws_appautoscaling_target.shards[0].service_namespace
  resource_id        = aws_appautoscaling_target.shards[0].resource_id
  scalable_dimension = aws_appautoscaling_target.shards[0].scalable_dimension

  target_tracking_scaling_policy_configuration {
    target_value = each.value.target
    # Each step moves slots between shards, so scale out quickly and in slowly.
    scale_out_cooldown = 300
    scale_in_cooldown  = 900

    predefined_metric_specification {
      predefined_metric_type = each.value.metric
    }
  }
}

resource "aws_appautoscaling_target" "replicas" {
  count = local.replica_scaling != null ? 1 : 0

  service_namespace  = "elasticache"
  resource_id        = "replication-group/${aws_elasticache_replication_group.scaled[0].replication_group_id}"
  scalable_dimension = "elasticache:replication-group:Replicas"
  min_capacity       = local.replica_scaling.min
  max_capacity       = local.replica_scaling.max
  tags               = var.tags
}

resource "aws_appautoscaling_policy" "replicas" {
  count = local.replica_scaling != null ? 1 : 0

  name               = "${var.name}-replicas-cpu"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = aws_appautoscaling_target.replicas[0].service_namespace
  resource_id        = aws_appautoscaling_target.replicas[0].resource_id
  scalable_dimension = aws_appautoscaling_target.replicas[0].scalable_dimension

  target_tracking_scaling_policy_configuration {
    target_value       = local.replica_scaling.engine_cpu_percent
    scale_out_cooldown = 300
    scale_in_cooldown  = 900

    predefined_metric_specification {
      predefined_metric_type = "ElastiCacheReplicaEngineCPUUtilization"
    }
  }
}
