# What is refused.

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

run "neither_topology" {
  command = plan
  variables {
    cluster = null
  }
  expect_failures = [var.cluster]
}

run "both_topologies" {
  command = plan
  variables {
    cluster    = { node_type = "cache.r7g.large" }
    serverless = { data_storage_gb = { maximum = 20 }, ecpu_per_second = { maximum = 100000 } }
  }
  expect_failures = [var.cluster]
}

run "name_with_capitals" {
  command = plan
  variables {
    name = "Pages"
  }
  expect_failures = [var.name]
}

run "name_too_long" {
  command = plan
  variables {
    name = "a23456789012345678901234567890123456789012"
  }
  expect_failures = [var.name]
}

run "one_subnet" {
  command = plan
  variables {
    subnet_ids = ["subnet-0a"]
  }
  expect_failures = [var.subnet_ids]
}

run "no_clients" {
  command = plan
  variables {
    client_security_group_ids = {}
  }
  expect_failures = [var.client_security_group_ids]
}

run "no_vpc" {
  command = plan
  variables {
    vpc_id = null
  }
  expect_failures = [var.vpc_id]
}

run "vpc_beside_security_groups" {
  command = plan
  variables {
    client_security_group_ids = {}
    security_group_ids        = ["sg-0own"]
  }
  expect_failures = [var.vpc_id]
}

run "no_subnets" {
  command = plan
  variables {
    subnet_ids = null
  }
  expect_failures = [var.subnet_ids]
}

run "subnets_beside_a_subnet_group" {
  command = plan
  variables {
    subnet_group_name = "own"
  }
  expect_failures = [var.subnet_ids]
}

run "serverless_with_a_subnet_group" {
  command = plan
  variables {
    cluster           = null
    serverless        = { data_storage_gb = { maximum = 20 }, ecpu_per_second = { maximum = 100000 } }
    subnet_ids        = null
    subnet_group_name = "own"
  }
  expect_failures = [var.subnet_group_name]
}

run "clients_beside_security_groups" {
  command = plan
  variables {
    vpc_id             = null
    security_group_ids = ["sg-0own"]
  }
  expect_failures = [var.client_security_group_ids]
}

run "security_groups_of_none" {
  command = plan
  variables {
    vpc_id                    = null
    client_security_group_ids = {}
    security_group_ids        = []
  }
  expect_failures = [var.security_group_ids]
}

run "network_type_unknown" {
  command = plan
  variables {
    network_type = "ipv5"
  }
  expect_failures = [var.network_type]
}

run "serverless_with_a_network_type" {
  command = plan
  variables {
    cluster      = null
    serverless   = { data_storage_gb = { maximum = 20 }, ecpu_per_second = { maximum = 100000 } }
    network_type = "dual_stack"
  }
  expect_failures = [var.network_type]
}

run "topic_by_name" {
  command = plan
  variables {
    notification_topic_arn = "events"
  }
  expect_failures = [var.notification_topic_arn]
}

run "serverless_with_a_topic" {
  command = plan
  variables {
    cluster                = null
    serverless             = { data_storage_gb = { maximum = 20 }, ecpu_per_second = { maximum = 100000 } }
    notification_topic_arn = "arn:aws:sns:eu-central-1:123456789012:events"
  }
  expect_failures = [var.notification_topic_arn]
}

run "timeouts_without_a_unit" {
  command = plan
  variables {
    timeouts = { update = "90" }
  }
  expect_failures = [var.timeouts]
}

run "node_type_unknown" {
  command = plan
  variables {
    cluster = { node_type = "r7g.large" }
  }
  expect_failures = [var.cluster]
}

run "engine_too_old" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", engine_version = "7.0" }
  }
  expect_failures = [var.cluster]
}

run "engine_unknown" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", engine_version = "8.99" }
  }
  expect_failures = [var.cluster]
}

run "no_shards" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", shards = 0 }
  }
  expect_failures = [var.cluster]
}

run "a_fraction_of_a_shard" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", shards = 1.5 }
  }
  expect_failures = [var.cluster]
}

run "a_fraction_of_a_replica" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", replicas_per_shard = 1.5 }
  }
  expect_failures = [var.cluster]
}

run "too_many_replicas" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", replicas_per_shard = 6 }
  }
  expect_failures = [var.cluster]
}

run "too_many_nodes" {
  command = plan
  variables {
    alarms  = { enabled = false } # a plan of thousands takes minutes where it is not refused
    cluster = { node_type = "cache.r7g.large", shards = 251 }
  }
  expect_failures = [var.cluster]
}

run "too_many_shards_to_come" {
  command = plan
  variables {
    alarms  = { enabled = false } # a plan of thousands takes minutes where it is not refused
    cluster = { node_type = "cache.r7g.large", autoscaling = { shards = { min = 1, max = 251 } } }
  }
  expect_failures = [var.cluster]
}

run "too_many_replicas_to_come" {
  command = plan
  variables {
    alarms  = { enabled = false } # a plan of thousands takes minutes where it is not refused
    cluster = { node_type = "cache.r7g.large", shards = 84, autoscaling = { replicas = { min = 1, max = 5 } } }
  }
  expect_failures = [var.cluster]
}

run "multi_az_without_replicas" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", replicas_per_shard = 0 }
  }
  expect_failures = [var.cluster]
}

run "durability_unknown" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", durability = "default" }
  }
  expect_failures = [var.cluster]
}

run "durability_before_valkey_9" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", durability = "sync", engine_version = "8.2" }
  }
  expect_failures = [var.cluster]
}

run "durability_without_multi_az" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", durability = "sync", multi_az = false }
  }
  expect_failures = [var.cluster]
}

run "durability_on_burstable_nodes" {
  command = plan
  variables {
    cluster = { node_type = "cache.t4g.medium", durability = "sync" }
  }
  expect_failures = [var.cluster]
}

run "port_of_the_system" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", port = 80 }
  }
  expect_failures = [var.cluster]
}

run "a_fraction_of_a_port" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", port = 6379.5 }
  }
  expect_failures = [var.cluster]
}

run "eviction_by_parameter" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", parameters = { maxmemory-policy = "allkeys-lru" } }
  }
  expect_failures = [var.cluster]
}

run "maintenance_window_without_days" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", maintenance_window = "05:00-06:00" }
  }
  expect_failures = [var.cluster]
}

run "snapshot_window_with_days" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", snapshot_window = "sun:03:00-sun:04:00" }
  }
  expect_failures = [var.cluster]
}

run "maintenance_window_on_no_day" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", maintenance_window = "xyz:05:00-sun:06:00" }
  }
  expect_failures = [var.cluster]
}

run "maintenance_window_until_no_day" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", maintenance_window = "sun:05:00-abc:06:00" }
  }
  expect_failures = [var.cluster]
}

run "maintenance_window_at_no_hour" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", maintenance_window = "sun:29:00-sun:30:00" }
  }
  expect_failures = [var.cluster]
}

run "snapshot_window_at_no_hour" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", snapshot_window = "24:00-25:00" }
  }
  expect_failures = [var.cluster]
}

run "maintenance_window_too_short" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", maintenance_window = "sun:05:00-sun:05:59" }
  }
  expect_failures = [aws_elasticache_parameter_group.this]
}

run "snapshot_window_too_short" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", snapshot_window = "03:00-03:59" }
  }
  expect_failures = [aws_elasticache_parameter_group.this]
}

run "snapshots_that_begin_in_maintenance" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", snapshot_window = "05:59-06:59" }
  }
  expect_failures = [aws_elasticache_parameter_group.this]
}

run "maintenance_that_begins_in_snapshots" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", snapshot_window = "04:01-05:01" }
  }
  expect_failures = [aws_elasticache_parameter_group.this]
}

run "snapshots_in_maintenance_of_days" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", maintenance_window = "sat:04:00-mon:02:00" }
  }
  expect_failures = [aws_elasticache_parameter_group.this]
}

run "autoscaling_on_burstable_nodes" {
  command = plan
  variables {
    cluster = { node_type = "cache.t4g.medium", autoscaling = { shards = { min = 1, max = 2 } } }
  }
  expect_failures = [var.cluster]
}

run "autoscaling_on_huge_nodes" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.4xlarge", autoscaling = { shards = { min = 1, max = 2 } } }
  }
  expect_failures = [var.cluster]
}

run "autoscaling_of_nothing" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", autoscaling = {} }
  }
  expect_failures = [var.cluster]
}

run "autoscaling_bounds_around_shards" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", shards = 4, autoscaling = { shards = { min = 1, max = 3 } } }
  }
  expect_failures = [var.cluster]
}

run "autoscaling_from_a_fraction_of_a_shard" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", shards = 2, autoscaling = { shards = { min = 1.5, max = 3 } } }
  }
  expect_failures = [var.cluster]
}

run "autoscaling_to_a_fraction_of_a_shard" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", autoscaling = { shards = { min = 1, max = 2.5 } } }
  }
  expect_failures = [var.cluster]
}

run "autoscaling_bounds_around_replicas" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", autoscaling = { replicas = { min = 2, max = 3 } } }
  }
  expect_failures = [var.cluster]
}

run "autoscaling_from_a_fraction_of_a_replica" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", replicas_per_shard = 2, autoscaling = { replicas = { min = 1.5, max = 3 } } }
  }
  expect_failures = [var.cluster]
}

run "autoscaling_to_a_fraction_of_a_replica" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", autoscaling = { replicas = { min = 1, max = 2.5 } } }
  }
  expect_failures = [var.cluster]
}

run "autoscaling_too_late" {
  command = plan
  variables {
    cluster = { node_type = "cache.r7g.large", autoscaling = { shards = { min = 1, max = 2, memory_percent = 90 } } }
  }
  expect_failures = [var.cluster]
}

run "serverless_engine_unknown" {
  command = plan
  variables {
    cluster    = null
    serverless = { data_storage_gb = { maximum = 20 }, ecpu_per_second = { maximum = 100000 }, major_engine_version = "6" }
  }
  expect_failures = [var.serverless]
}

run "serverless_storage_minimum_above_maximum" {
  command = plan
  variables {
    cluster    = null
    serverless = { data_storage_gb = { minimum = 30, maximum = 20 }, ecpu_per_second = { maximum = 100000 } }
  }
  expect_failures = [var.serverless]
}

run "serverless_storage_too_large" {
  command = plan
  variables {
    cluster    = null
    serverless = { data_storage_gb = { maximum = 5001 }, ecpu_per_second = { maximum = 100000 } }
  }
  expect_failures = [var.serverless]
}

run "serverless_storage_of_a_fraction" {
  command = plan
  variables {
    cluster    = null
    serverless = { data_storage_gb = { maximum = 20.5 }, ecpu_per_second = { maximum = 100000 } }
  }
  expect_failures = [var.serverless]
}

run "serverless_ecpu_minimum_above_maximum" {
  command = plan
  variables {
    cluster    = null
    serverless = { data_storage_gb = { maximum = 20 }, ecpu_per_second = { minimum = 200000, maximum = 100000 } }
  }
  expect_failures = [var.serverless]
}

run "serverless_ecpu_too_small" {
  command = plan
  variables {
    cluster    = null
    serverless = { data_storage_gb = { maximum = 20 }, ecpu_per_second = { maximum = 999 } }
  }
  expect_failures = [var.serverless]
}

run "serverless_ecpu_of_a_fraction" {
  command = plan
  variables {
    cluster    = null
    serverless = { data_storage_gb = { maximum = 20 }, ecpu_per_second = { minimum = 1000.5, maximum = 100000 } }
  }
  expect_failures = [var.serverless]
}

run "serverless_snapshot_time_unknown" {
  command = plan
  variables {
    cluster    = null
    serverless = { data_storage_gb = { maximum = 20 }, ecpu_per_second = { maximum = 100000 }, daily_snapshot_time = "3" }
  }
  expect_failures = [var.serverless]
}

run "serverless_snapshot_at_no_hour" {
  command = plan
  variables {
    cluster    = null
    serverless = { data_storage_gb = { maximum = 20 }, ecpu_per_second = { maximum = 100000 }, daily_snapshot_time = "24:00" }
  }
  expect_failures = [var.serverless]
}

run "key_by_alias" {
  command = plan
  variables {
    kms_key_arn = "alias/pages"
  }
  expect_failures = [var.kms_key_arn]
}

run "user_name_with_capitals" {
  command = plan
  variables {
    user_name = "Pages"
  }
  expect_failures = [var.user_name]
}

run "secret_by_name" {
  command = plan
  variables {
    auth_secret = { arn = "redis" }
    auth_token  = "0123456789abcdef"
  }
  expect_failures = [var.auth_secret]
}

run "password_without_secret" {
  command = plan
  variables {
    auth_token = "0123456789abcdef"
  }
  expect_failures = [var.auth_secret]
}

run "secret_without_password" {
  command = plan
  variables {
    auth_secret = { arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:redis-Ab12" }
  }
  expect_failures = [var.auth_secret]
}

run "serverless_with_password" {
  command = plan
  variables {
    cluster     = null
    serverless  = { data_storage_gb = { maximum = 20 }, ecpu_per_second = { maximum = 100000 } }
    auth_secret = { arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:redis-Ab12" }
    auth_token  = "0123456789abcdef"
  }
  expect_failures = [var.auth_secret]
}

run "password_too_short" {
  command = plan
  variables {
    auth_secret = { arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:redis-Ab12" }
    auth_token  = "short"
  }
  expect_failures = [var.auth_token]
}

run "password_deleted" {
  command = plan
  variables {
    auth_token_update_strategy = "DELETE"
  }
  expect_failures = [var.auth_token_update_strategy]
}

run "snapshots_kept_too_long" {
  command = plan
  variables {
    snapshot_retention_days = 36
  }
  expect_failures = [var.snapshot_retention_days]
}

run "snapshots_kept_for_half_a_day" {
  command = plan
  variables {
    snapshot_retention_days = 0.5
  }
  expect_failures = [var.snapshot_retention_days]
}

run "no_snapshots_by_accident" {
  command = plan
  variables {
    snapshot_retention_days = 0
  }
  expect_failures = [var.snapshot_retention_days]
}

run "logs_kept_for_ever" {
  command = plan
  variables {
    log_retention_days = 0
  }
  expect_failures = [var.log_retention_days]
}

run "emails_for_a_given_topic" {
  command = plan
  variables {
    alarms = { topic_arn = "arn:aws:sns:eu-central-1:123456789012:given", emails = ["ops@example.com"] }
  }
  expect_failures = [var.alarms]
}
