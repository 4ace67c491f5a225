# Nothing is made with create = false.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  name   = "pages"
  create = false
}

run "of_nothing" {
  assert {
    condition = 0 == sum([for made in [
      aws_elasticache_replication_group.fixed, aws_elasticache_replication_group.scaled, aws_elasticache_serverless_cache.this,
      aws_elasticache_parameter_group.this, aws_elasticache_subnet_group.this, aws_elasticache_user.this,
      aws_elasticache_user_group.this, aws_security_group.this, aws_vpc_security_group_ingress_rule.clients, aws_iam_policy.this,
      aws_kms_key.this, aws_kms_alias.this, aws_cloudwatch_log_group.this, aws_sns_topic.alarms, aws_sns_topic_subscription.emails,
      aws_cloudwatch_metric_alarm.this, aws_appautoscaling_target.shards, aws_appautoscaling_target.replicas,
      aws_appautoscaling_policy.shards, aws_appautoscaling_policy.replicas,
    ] : length(made)])
    error_message = "Something is made of nothing."
  }
}

# All that a cluster has, and all that a serverless cache has.
run "of_a_cluster" {
  variables {
    vpc_id                    = "vpc-0a"
    subnet_ids                = ["subnet-0a", "subnet-0b"]
    client_security_group_ids = { service = "sg-0service" }
    alarms                    = { emails = ["ops@example.com"] }
    cluster = {
      node_type   = "cache.r7g.large"
      autoscaling = { shards = { min = 1, max = 6 }, replicas = { min = 1, max = 3 } }
    }
  }

  assert {
    condition = 0 == sum([for made in [
      aws_elasticache_replication_group.fixed, aws_elasticache_replication_group.scaled, aws_elasticache_serverless_cache.this,
      aws_elasticache_parameter_group.this, aws_elasticache_subnet_group.this, aws_elasticache_user.this,
      aws_elasticache_user_group.this, aws_security_group.this, aws_vpc_security_group_ingress_rule.clients, aws_iam_policy.this,
      aws_kms_key.this, aws_kms_alias.this, aws_cloudwatch_log_group.this, aws_sns_topic.alarms, aws_sns_topic_subscription.emails,
      aws_cloudwatch_metric_alarm.this, aws_appautoscaling_target.shards, aws_appautoscaling_target.replicas,
      aws_appautoscaling_policy.shards, aws_appautoscaling_policy.replicas,
    ] : length(made)])
    error_message = "Something of the cluster is made."
  }

  assert {
    condition = length([for value in [
      output.redis_url, output.arn, output.configuration_endpoint_address, output.primary_endpoint_address,
      output.reader_endpoint_address, output.port, output.user_name, output.iam_policy_arn, output.iam_policy_json,
      output.security_group_id, output.kms_key_arn, output.sns_topic_arn,
    ] : value if value != null]) + length(output.nodes_without_alarms) == 0
    error_message = "There is an output."
  }
}

run "of_a_group_without_autoscaling" {
  variables {
    vpc_id                    = "vpc-0a"
    subnet_ids                = ["subnet-0a", "subnet-0b"]
    client_security_group_ids = { service = "sg-0service" }
    cluster                   = { node_type = "cache.r7g.large" }
  }

  assert {
    condition     = length(aws_elasticache_replication_group.fixed) == 0
    error_message = "The group is made."
  }
}

run "of_a_serverless_cache" {
  variables {
    vpc_id                    = "vpc-0a"
    subnet_ids                = ["subnet-0a", "subnet-0b"]
    client_security_group_ids = { service = "sg-0service" }
    kms_key_arn               = "arn:aws:kms:eu-central-1:123456789012:key/given"
    alarms                    = { topic_arn = "arn:aws:sns:eu-central-1:123456789012:given" }
    serverless                = { data_storage_gb = { maximum = 20 }, ecpu_per_second = { maximum = 100000 } }
  }

  assert {
    condition     = length(aws_elasticache_serverless_cache.this) + length(aws_cloudwatch_metric_alarm.this) == 0
    error_message = "The serverless cache or its alarms are made."
  }

  assert {
    condition     = output.kms_key_arn == null && output.sns_topic_arn == null
    error_message = "There is an output of what was given."
  }
}
