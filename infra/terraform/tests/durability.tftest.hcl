# What survives the loss of a node, a zone, or everything.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  name                      = "pages"
  vpc_id                    = "vpc-0a"
  subnet_ids                = ["subnet-0a", "subnet-0b"]
  client_security_group_ids = { service = "sg-0service" }
  cluster                   = { node_type = "cache.r7g.large" }
}

run "by_default" {
  assert {
    condition     = aws_elasticache_replication_group.fixed[0].multi_az_enabled
    error_message = "The group is not Multi-AZ."
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].automatic_failover_enabled
    error_message = "No replica takes over."
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].replicas_per_node_group == 1
    error_message = "There is no replica."
  }

  assert {
    condition     = [for p in aws_elasticache_parameter_group.this[0].parameter : p.value if p.name == "maxmemory-policy"] == ["noeviction"]
    error_message = "Pages may be evicted."
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].parameter_group_name == aws_elasticache_parameter_group.this[0].name
    error_message = "The group does not have the module's parameters."
  }

  assert {
    condition     = [for p in aws_elasticache_parameter_group.this[0].parameter : p.value if p.name == "cluster-enabled"] == ["yes"]
    error_message = "The parameters are not for a cluster."
  }

  assert {
    condition     = [for p in aws_elasticache_parameter_group.this[0].parameter : p.value if p.name == "reserved-memory-percent"] == ["25"]
    error_message = "No memory is kept for replicas and snapshots."
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].snapshot_retention_limit == 7
    error_message = "Daily snapshots are not kept for a week."
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].snapshot_window == "03:00-04:00"
    error_message = "Snapshots are not taken in their window."
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].final_snapshot_identifier == "pages-final"
    error_message = "Nothing is kept of a group that is destroyed."
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].maintenance_window == "sun:05:00-sun:06:00"
    error_message = "Maintenance is not done in its window."
  }

  assert {
    condition     = !aws_elasticache_replication_group.fixed[0].apply_immediately
    error_message = "Changes do not wait."
  }

  assert {
    condition     = !tobool(aws_elasticache_replication_group.fixed[0].auto_minor_version_upgrade)
    error_message = "The engine's version moves on without Terraform, which would set it back."
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].durability == null
    error_message = "Nodes that may not know durability are told of it."
  }

  assert {
    condition = { for l in aws_elasticache_replication_group.fixed[0].log_delivery_configuration : l.log_type =>
      [l.destination_type, l.log_format, l.destination]
      } == {
      engine-log = ["cloudwatch-logs", "json", "/aws/vendedlogs/elasticache/pages/engine-log"]
      slow-log   = ["cloudwatch-logs", "json", "/aws/vendedlogs/elasticache/pages/slow-log"]
    }
    error_message = "The logs do not arrive."
  }

  assert {
    condition     = { for k, l in aws_cloudwatch_log_group.this : k => l.retention_in_days } == { engine-log = 30, slow-log = 30 }
    error_message = "The logs are not kept for a month."
  }
}

run "it_is_a_cluster" {
  variables {
    cluster = { node_type = "cache.r7g.large", shards = 3, replicas_per_shard = 2 }
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].cluster_mode == "enabled"
    error_message = "The group is not in cluster mode."
  }

  assert {
    condition = (
      aws_elasticache_replication_group.fixed[0].num_node_groups == 3 &&
      aws_elasticache_replication_group.fixed[0].replicas_per_node_group == 2
    )
    error_message = "The group does not have the shards and replicas that were asked for."
  }
}

run "further_parameters" {
  variables {
    cluster = { node_type = "cache.r7g.large", parameters = { slowlog-log-slower-than = "5000" } }
  }

  assert {
    condition = { for p in aws_elasticache_parameter_group.this[0].parameter : p.name => p.value } == {
      maxmemory-policy        = "noeviction"
      cluster-enabled         = "yes"
      reserved-memory-percent = "25"
      slowlog-log-slower-than = "5000"
    }
    error_message = "The parameters are not the module's and those given."
  }
}

run "family_is_that_of_the_engine" {
  variables {
    cluster = { node_type = "cache.r7g.large", engine_version = "7.2" }
  }

  assert {
    condition = (
      aws_elasticache_parameter_group.this[0].family == "valkey7" &&
      endswith(aws_elasticache_parameter_group.this[0].name, "valkey7")
    )
    error_message = "The family of parameters is not that of the engine."
  }

  assert {
    condition = (
      aws_elasticache_replication_group.fixed[0].engine == "valkey" && aws_elasticache_replication_group.fixed[0].engine_version == "7.2"
    )
    error_message = "The engine is not the one asked for."
  }
}

run "a_last_snapshot_can_be_left_out" {
  variables {
    cluster = { node_type = "cache.r7g.large", final_snapshot = false }
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].final_snapshot_identifier == null
    error_message = "A last snapshot is taken that is not wanted."
  }
}

run "a_last_snapshot_can_have_a_name" {
  variables {
    cluster = { node_type = "cache.r7g.large", final_snapshot_name = "pages-2" }
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].final_snapshot_identifier == "pages-2"
    error_message = "The last snapshot does not have its name."
  }
}

run "a_snapshot_can_be_restored" {
  variables {
    cluster = { node_type = "cache.r7g.large", snapshot_name = "pages-final" }
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].snapshot_name == "pages-final"
    error_message = "The group is not made from the snapshot."
  }
}

run "durability_can_be_had" {
  variables {
    cluster = { node_type = "cache.r7g.large", durability = "sync" }
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].durability == "sync"
    error_message = "The group does not have the durability that was asked for."
  }
}

run "durability_can_be_ruled_out" {
  variables {
    cluster = { node_type = "cache.r7g.large", durability = "disabled" }
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].durability == "disabled"
    error_message = "Durability is left to AWS, although it was ruled out."
  }
}

run "an_engine_without_durability_is_not_told_of_it" {
  variables {
    cluster = { node_type = "cache.r7g.large", engine_version = "8.2", durability = "disabled" }
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].durability == null
    error_message = "An engine that has no durability is told of it."
  }
}
