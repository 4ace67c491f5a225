# Alarms, and whom they tell.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  name                      = "pages"
  vpc_id                    = "vpc-0a"
  subnet_ids                = ["subnet-0a", "subnet-0b"]
  client_security_group_ids = { service = "sg-0service" }
  cluster                   = { node_type = "cache.r7g.large" }
  alarms                    = { emails = ["ops@example.com"] }
}

run "by_default" {
  assert {
    condition = { for k, a in aws_cloudwatch_metric_alarm.this : k => [a.metric_name, a.statistic, a.threshold] } == merge([
      for node in ["pages-0001-001", "pages-0001-002"] : {
        "${node} EngineCPUUtilization"                 = ["EngineCPUUtilization", "Average", 80]
        "${node} DatabaseMemoryUsagePercentage"        = ["DatabaseMemoryUsagePercentage", "Maximum", 75]
        "${node} Evictions"                            = ["Evictions", "Sum", 0]
        "${node} ReplicationLag"                       = ["ReplicationLag", "Maximum", 10]
        "${node} CurrConnections"                      = ["CurrConnections", "Maximum", 50000]
        "${node} NetworkBandwidthOutAllowanceExceeded" = ["NetworkBandwidthOutAllowanceExceeded", "Sum", 0]
        "${node} IamAuthenticationExpirations"         = ["IamAuthenticationExpirations", "Sum", 0]
        "${node} CommandAuthorizationFailures"         = ["CommandAuthorizationFailures", "Sum", 0]
      }
    ]...)
    error_message = "The alarms are not those of the group's two nodes."
  }

  assert {
    condition = alltrue([
      for k, a in aws_cloudwatch_metric_alarm.this :
      a.namespace == "AWS/ElastiCache" && a.dimensions == tomap({ CacheClusterId = split(" ", k)[0], CacheNodeId = "0001" })
    ])
    error_message = "An alarm looks at another node than it says."
  }

  assert {
    condition = alltrue([
      for a in aws_cloudwatch_metric_alarm.this :
      a.comparison_operator == "GreaterThanThreshold" && a.actions_enabled != false && a.treat_missing_data == "notBreaching"
    ])
    error_message = "An alarm does not go off above its threshold."
  }

  assert {
    condition = alltrue([
      for a in aws_cloudwatch_metric_alarm.this :
      a.alarm_actions == toset([aws_sns_topic.alarms[0].arn]) && a.ok_actions == toset([aws_sns_topic.alarms[0].arn])
    ])
    error_message = "An alarm does not tell the topic."
  }

  assert {
    condition     = output.sns_topic_arn == aws_sns_topic.alarms[0].arn
    error_message = "The topic is not among the outputs."
  }

  assert {
    condition = [for s in aws_sns_topic_subscription.emails : [s.topic_arn, s.protocol, s.endpoint]] == [
      [aws_sns_topic.alarms[0].arn, "email", "ops@example.com"]
    ]
    error_message = "The address is not subscribed."
  }
}

run "a_topic_of_ones_own" {
  variables {
    alarms = { topic_arn = "arn:aws:sns:eu-central-1:123456789012:given" }
  }

  assert {
    condition     = alltrue([for a in aws_cloudwatch_metric_alarm.this : a.alarm_actions == toset([var.alarms.topic_arn])])
    error_message = "An alarm does not tell the topic that was given."
  }

  assert {
    condition     = length(aws_sns_topic.alarms) == 0 && output.sns_topic_arn == var.alarms.topic_arn
    error_message = "A topic is made beside the one that was given."
  }
}

run "no_alarms_if_not_wanted" {
  variables {
    alarms = { enabled = false }
  }

  assert {
    condition     = length(aws_cloudwatch_metric_alarm.this) + length(aws_sns_topic.alarms) == 0 && output.sns_topic_arn == null
    error_message = "There are alarms that are not wanted."
  }
}

run "a_lagging_durable_log_is_noticed" {
  variables {
    cluster = { node_type = "cache.r7g.large", durability = "async" }
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.this["pages-0001-001 DurabilityLag"].threshold == 5000
    error_message = "Nobody notices that the durable log is behind."
  }
}

run "nodes_to_come_have_alarms" {
  variables {
    cluster = { node_type = "cache.r7g.large", autoscaling = { shards = { min = 1, max = 3 }, replicas = { min = 1, max = 2 } } }
  }

  assert {
    condition = toset([for a in aws_cloudwatch_metric_alarm.this : a.dimensions.CacheClusterId]) == toset([
      "pages-0001-001", "pages-0001-002", "pages-0001-003",
      "pages-0002-001", "pages-0002-002", "pages-0002-003",
      "pages-0003-001", "pages-0003-002", "pages-0003-003",
    ])
    error_message = "Nodes that autoscaling adds have no alarms."
  }

  assert {
    condition     = length(output.nodes_without_alarms) == 0
    error_message = "Nodes are said to have no alarms that have them."
  }
}

run "nodes_without_alarms_are_told" {
  override_resource {
    target = aws_elasticache_replication_group.fixed
    values = { member_clusters = ["pages-0001-001", "pages-0007-001"] }
  }

  assert {
    condition     = output.nodes_without_alarms == toset(["pages-0007-001"])
    error_message = "It is not told which nodes have no alarms."
  }
}
