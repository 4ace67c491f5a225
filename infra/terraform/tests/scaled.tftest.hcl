# With autoscaling the group is another resource, and has to be as safe.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  name                      = "pages"
  vpc_id                    = "vpc-0a"
  subnet_ids                = ["subnet-0a", "subnet-0b"]
  client_security_group_ids = { service = "sg-0service" }
  alarms                    = { enabled = false } # see alarms.tftest.hcl
  cluster = {
    node_type   = "cache.r7g.large"
    shards      = 2
    durability  = "sync"
    autoscaling = { shards = { min = 2, max = 6 }, replicas = { min = 1, max = 3 } }
  }
}

run "with_autoscaling" {
  assert {
    condition     = tobool(aws_elasticache_replication_group.scaled[0].at_rest_encryption_enabled)
    error_message = "The group's data is not encrypted at rest."
  }

  assert {
    condition     = aws_elasticache_replication_group.scaled[0].kms_key_id == aws_kms_key.this[0].arn
    error_message = "The group's data is not under the module's key."
  }

  assert {
    condition = (
      aws_elasticache_replication_group.scaled[0].transit_encryption_enabled &&
      aws_elasticache_replication_group.scaled[0].transit_encryption_mode == "required"
    )
    error_message = "The group does not insist on TLS."
  }

  assert {
    condition     = aws_elasticache_replication_group.scaled[0].user_group_ids == toset([aws_elasticache_user_group.this[0].user_group_id])
    error_message = "The cache does not ask who connects."
  }

  assert {
    condition     = aws_elasticache_replication_group.scaled[0].security_group_ids == toset(["sg-0cache"])
    error_message = "The cache is not in the module's security group alone."
  }

  assert {
    condition     = aws_elasticache_replication_group.scaled[0].subnet_group_name == aws_elasticache_subnet_group.this[0].name
    error_message = "The cache is not in the subnet group."
  }

  assert {
    condition     = jsondecode(aws_iam_policy.this[0].policy).Statement[0].Resource[0] == aws_elasticache_replication_group.scaled[0].arn
    error_message = "The policy is not for this cache."
  }

  assert {
    condition = (
      aws_elasticache_replication_group.scaled[0].multi_az_enabled &&
      aws_elasticache_replication_group.scaled[0].automatic_failover_enabled &&
      aws_elasticache_replication_group.scaled[0].cluster_mode == "enabled" &&
      aws_elasticache_replication_group.scaled[0].num_node_groups == 2 &&
      aws_elasticache_replication_group.scaled[0].replicas_per_node_group == 1
    )
    error_message = "The group does not survive the loss of a zone."
  }

  assert {
    condition = (
      aws_elasticache_replication_group.scaled[0].snapshot_retention_limit == 7 &&
      aws_elasticache_replication_group.scaled[0].snapshot_window == "03:00-04:00" &&
      aws_elasticache_replication_group.scaled[0].final_snapshot_identifier == "pages-final"
    )
    error_message = "The group is not backed up."
  }

  assert {
    condition = (
      aws_elasticache_replication_group.scaled[0].maintenance_window == "sun:05:00-sun:06:00" &&
      !aws_elasticache_replication_group.scaled[0].apply_immediately &&
      !tobool(aws_elasticache_replication_group.scaled[0].auto_minor_version_upgrade)
    )
    error_message = "The group is not maintained in its window."
  }

  assert {
    condition     = length(aws_elasticache_replication_group.scaled[0].log_delivery_configuration) == 2
    error_message = "The logs do not arrive."
  }

  assert {
    condition     = aws_elasticache_replication_group.scaled[0].parameter_group_name == aws_elasticache_parameter_group.this[0].name
    error_message = "The group does not have the module's parameters."
  }

  assert {
    condition     = aws_elasticache_replication_group.scaled[0].durability == "sync"
    error_message = "The group does not have the durability that was asked for."
  }

  assert {
    condition = [
      aws_appautoscaling_target.shards[0].service_namespace,
      aws_appautoscaling_target.shards[0].resource_id,
      aws_appautoscaling_target.shards[0].scalable_dimension,
      aws_appautoscaling_target.shards[0].min_capacity,
      aws_appautoscaling_target.shards[0].max_capacity,
    ] == ["elasticache", "replication-group/pages", "elasticache:replication-group:NodeGroups", 2, 6]
    error_message = "The shards are not scaled within the bounds."
  }

  assert {
    condition = {
      for k, p in aws_appautoscaling_policy.shards : k => [
        p.policy_type,
        p.target_tracking_scaling_policy_configuration[0].predefined_metric_specification[0].predefined_metric_type,
        p.target_tracking_scaling_policy_configuration[0].target_value,
      ]
      } == {
      cpu    = ["TargetTrackingScaling", "ElastiCachePrimaryEngineCPUUtilization", 60]
      memory = ["TargetTrackingScaling", "ElastiCacheDatabaseMemoryUsageCountedForEvictPercentage", 60]
    }
    error_message = "The shards do not follow CPU and memory."
  }

  assert {
    condition = [
      aws_appautoscaling_target.replicas[0].resource_id,
      aws_appautoscaling_target.replicas[0].scalable_dimension,
      aws_appautoscaling_target.replicas[0].min_capacity,
      aws_appautoscaling_target.replicas[0].max_capacity,
    ] == ["replication-group/pages", "elasticache:replication-group:Replicas", 1, 3]
    error_message = "The replicas are not scaled within the bounds."
  }

  assert {
    condition = (
      aws_appautoscaling_policy.replicas[0].target_tracking_scaling_policy_configuration[0]
      .predefined_metric_specification[0].predefined_metric_type == "ElastiCacheReplicaEngineCPUUtilization"
    )
    error_message = "The replicas do not follow their CPU."
  }
}

# What autoscaling did is not undone by the next plan: other counts, and no change.
run "scaling_is_not_undone" {
  variables {
    cluster = {
      node_type          = "cache.r7g.large"
      shards             = 4
      replicas_per_shard = 2
      durability         = "sync"
      autoscaling        = { shards = { min = 2, max = 6 }, replicas = { min = 1, max = 3 } }
    }
  }

  assert {
    condition = (
      aws_elasticache_replication_group.scaled[0].num_node_groups == 2 &&
      aws_elasticache_replication_group.scaled[0].replicas_per_node_group == 1
    )
    error_message = "The counts are set back."
  }
}

run "with_what_was_given" {
  variables {
    vpc_id                    = null
    client_security_group_ids = {}
    security_group_ids        = ["sg-0own"]
    subnet_ids                = null
    subnet_group_name         = "own"
    network_type              = "dual_stack"
    notification_topic_arn    = "arn:aws:sns:eu-central-1:123456789012:events"
    timeouts                  = { create = "2h", update = "1h30m", delete = "50m" }
  }

  assert {
    condition = (
      aws_elasticache_replication_group.scaled[0].security_group_ids == toset(["sg-0own"]) &&
      aws_elasticache_replication_group.scaled[0].subnet_group_name == "own"
    )
    error_message = "The cache is not in the groups that were given."
  }

  assert {
    condition = [
      aws_elasticache_replication_group.scaled[0].network_type, aws_elasticache_replication_group.scaled[0].ip_discovery,
    ] == ["dual_stack", "ipv4"]
    error_message = "The cluster does not have addresses of both kinds."
  }

  assert {
    condition     = aws_elasticache_replication_group.scaled[0].notification_topic_arn == "arn:aws:sns:eu-central-1:123456789012:events"
    error_message = "Events do not go to the topic."
  }

  assert {
    condition     = aws_elasticache_replication_group.scaled[0].timeouts == { create = "2h", update = "1h30m", delete = "50m" }
    error_message = "Terraform does not wait for the cluster as long as it should."
  }
}

run "with_a_password" {
  variables {
    auth_secret                = { arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:redis-Ab12" }
    auth_token                 = "0123456789abcdef"
    auth_token_update_strategy = "SET"
  }

  assert {
    condition     = aws_elasticache_replication_group.scaled[0].auth_token == "0123456789abcdef"
    error_message = "The cache does not have the password."
  }

  assert {
    condition     = aws_elasticache_replication_group.scaled[0].auth_token_update_strategy == "SET"
    error_message = "The password before cannot be ended."
  }
}
