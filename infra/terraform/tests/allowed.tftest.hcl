# What is allowed because somebody said so.

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

run "no_snapshots_on_purpose" {
  command = plan
  variables {
    snapshot_retention_days = 0
    allow_no_snapshots      = true
  }
  assert {
    condition     = aws_elasticache_replication_group.fixed[0].snapshot_retention_limit == 0
    error_message = "Snapshots are kept that are not wanted."
  }
}

run "one_node_on_purpose" {
  command = plan
  variables {
    cluster = { node_type = "cache.t4g.small", replicas_per_shard = 0, multi_az = false }
  }
  assert {
    condition = (
      !aws_elasticache_replication_group.fixed[0].multi_az_enabled &&
      aws_elasticache_replication_group.fixed[0].replicas_per_node_group == 0
    )
    error_message = "There is more than the one node."
  }
}

run "minor_versions_on_purpose" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", auto_minor_version_upgrade = true }
  }
  assert {
    condition     = tobool(aws_elasticache_replication_group.fixed[0].auto_minor_version_upgrade)
    error_message = "Minor versions are not followed."
  }
}

# Windows may touch, and go past midnight and the end of the week.
run "windows_past_the_end" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", maintenance_window = "sun:23:30-mon:00:30", snapshot_window = "00:30-01:30" }
  }
  assert {
    condition     = aws_elasticache_replication_group.fixed[0].maintenance_window == "sun:23:30-mon:00:30"
    error_message = "Maintenance is not around midnight."
  }
}

run "snapshots_past_midnight" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", maintenance_window = "mon:00:30-mon:01:30", snapshot_window = "23:30-00:30" }
  }
  assert {
    condition     = aws_elasticache_replication_group.fixed[0].snapshot_window == "23:30-00:30"
    error_message = "Snapshots are not around midnight."
  }
}

run "as_many_nodes_as_there_can_be" {
  command = plan
  variables {
    alarms  = { enabled = false }
    cluster = { node_type = "cache.r7g.large", shards = 250 }
  }
  assert {
    condition     = aws_elasticache_replication_group.fixed[0].num_node_groups == 250
    error_message = "There are fewer shards than were asked for."
  }
}
