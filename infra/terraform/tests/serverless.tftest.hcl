# A serverless cache.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  name                      = "pages"
  vpc_id                    = "vpc-0a"
  subnet_ids                = ["subnet-0a", "subnet-0b"]
  client_security_group_ids = { service = "sg-0service" }
  serverless = {
    data_storage_gb = { minimum = 2, maximum = 20 }
    ecpu_per_second = { minimum = 2000, maximum = 100000 }
  }
}

run "serverless" {
  assert {
    condition = (
      aws_elasticache_serverless_cache.this[0].cache_usage_limits[0].data_storage[0].maximum == 20 &&
      aws_elasticache_serverless_cache.this[0].cache_usage_limits[0].data_storage[0].unit == "GB"
    )
    error_message = "The storage is not bounded."
  }

  assert {
    condition     = aws_elasticache_serverless_cache.this[0].cache_usage_limits[0].ecpu_per_second[0].maximum == 100000
    error_message = "The processing is not bounded."
  }

  assert {
    condition = (
      aws_elasticache_serverless_cache.this[0].cache_usage_limits[0].data_storage[0].minimum == 2 &&
      aws_elasticache_serverless_cache.this[0].cache_usage_limits[0].ecpu_per_second[0].minimum == 2000
    )
    error_message = "The minimum is not kept ready."
  }

  assert {
    condition     = aws_elasticache_serverless_cache.this[0].kms_key_id == aws_kms_key.this[0].arn
    error_message = "The data is not under the module's key."
  }

  assert {
    condition     = aws_elasticache_serverless_cache.this[0].user_group_id == aws_elasticache_user_group.this[0].user_group_id
    error_message = "The cache does not ask who connects."
  }

  assert {
    condition     = aws_elasticache_user.this[0].authentication_mode[0].type == "iam"
    error_message = "The user does not log in by IAM."
  }

  assert {
    condition     = aws_elasticache_serverless_cache.this[0].subnet_ids == toset(["subnet-0a", "subnet-0b"])
    error_message = "The cache is in other subnets."
  }

  assert {
    condition     = aws_elasticache_serverless_cache.this[0].security_group_ids == toset(["sg-0cache"])
    error_message = "The cache is not in the module's security group alone."
  }

  assert {
    condition = { for k, r in aws_vpc_security_group_ingress_rule.clients : k => [
      r.referenced_security_group_id, r.ip_protocol, r.from_port, r.to_port
    ] } == { service = ["sg-0service", "tcp", 6379, 6380] }
    error_message = "The security group does not let in what was given, at the two ports."
  }

  assert {
    condition     = aws_elasticache_serverless_cache.this[0].snapshot_retention_limit == 7
    error_message = "Daily snapshots are not kept for a week."
  }

  assert {
    condition     = aws_elasticache_serverless_cache.this[0].daily_snapshot_time == "03:00"
    error_message = "Snapshots are not taken at their time."
  }

  assert {
    condition = (
      aws_elasticache_serverless_cache.this[0].engine == "valkey" && aws_elasticache_serverless_cache.this[0].major_engine_version == "8"
    )
    error_message = "The engine is not Valkey 8."
  }

  assert {
    condition = jsondecode(aws_iam_policy.this[0].policy).Statement == [
      {
        Sid      = "Connect"
        Effect   = "Allow"
        Action   = ["elasticache:Connect"]
        Resource = [aws_elasticache_serverless_cache.this[0].arn, aws_elasticache_user.this[0].arn]
      },
      {
        Sid      = "Discover"
        Effect   = "Allow"
        Action   = ["elasticache:DescribeServerlessCaches"]
        Resource = [aws_elasticache_serverless_cache.this[0].arn]
      },
    ]
    error_message = "The policy is not what feedfilter needs, no more and no less."
  }

  assert {
    condition = 0 == (
      length(aws_elasticache_replication_group.fixed) + length(aws_elasticache_replication_group.scaled) +
      length(aws_elasticache_parameter_group.this) + length(aws_elasticache_subnet_group.this) + length(aws_cloudwatch_log_group.this)
    )
    error_message = "Something is made that a serverless cache does not use."
  }

  assert {
    condition     = output.redis_url == "elasticache-serverless://pages?region=eu-central-1&user=pages"
    error_message = "The URL is not that of the cache."
  }

  assert {
    condition = [output.primary_endpoint_address, output.reader_endpoint_address, output.port, output.arn] == [
      "pages.serverless.example.com", "pages.serverless.example.com", 6379, aws_elasticache_serverless_cache.this[0].arn,
    ]
    error_message = "The endpoints are not those of the cache."
  }

  assert {
    condition     = output.configuration_endpoint_address == null
    error_message = "A serverless cache has no configuration endpoint."
  }

  assert {
    condition = {
      for k, a in aws_cloudwatch_metric_alarm.this : k => [a.metric_name, a.statistic, a.threshold, a.dimensions.clusterId]
      } == {
      "pages ThrottledCmds"                = ["ThrottledCmds", "Sum", 0, "pages"]
      "pages ElastiCacheProcessingUnits"   = ["ElastiCacheProcessingUnits", "Sum", 24000000, "pages"]
      "pages BytesUsedForCache"            = ["BytesUsedForCache", "Maximum", 16000000000, "pages"]
      "pages Evictions"                    = ["Evictions", "Sum", 0, "pages"]
      "pages IamAuthenticationExpirations" = ["IamAuthenticationExpirations", "Sum", 0, "pages"]
      "pages CommandAuthorizationFailures" = ["CommandAuthorizationFailures", "Sum", 0, "pages"]
    }
    error_message = "The alarms are not those of a serverless cache."
  }
}

run "serverless_can_be_restored" {
  variables {
    serverless = {
      data_storage_gb = { maximum = 20 }
      ecpu_per_second = { maximum = 100000 }
      snapshot_arns   = ["arn:aws:elasticache:eu-central-1:123456789012:serverlesssnapshot:pages"]
    }
  }

  assert {
    condition     = aws_elasticache_serverless_cache.this[0].snapshot_arns_to_restore == tolist(var.serverless.snapshot_arns)
    error_message = "The cache is not made from the snapshot."
  }
}
