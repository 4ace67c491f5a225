output "redis_url" {
  description = "URL for feedfilter's --redis. It contains no secret."
  value = !var.create ? null : join("", [
    var.cluster != null ? "elasticache://" : "elasticache-serverless://", var.name,
    "?region=", urlencode(local.region),
    local.iam ? "&user=${urlencode(local.user_name)}" : "&secret=${urlencode(var.auth_secret.arn)}",
  ])
  # The URL is usable only once the cache and its user exist.
  depends_on = [
    aws_elasticache_replication_group.fixed,
    aws_elasticache_replication_group.scaled,
    aws_elasticache_serverless_cache.this,
  ]
}

output "arn" {
  description = "ARN of the replication group or serverless cache."
  value       = local.cache_arn
}

output "configuration_endpoint_address" {
  description = "Host of the cluster's configuration endpoint; null for a serverless cache."
  value       = local.configuration_endpoint
}

output "primary_endpoint_address" {
  description = "Host of a serverless cache; null for a cluster."
  value       = one(aws_elasticache_serverless_cache.this[*].endpoint[0].address)
}

output "reader_endpoint_address" {
  description = "Read host of a serverless cache, which feedfilter uses with reader=true; null for a cluster."
  value       = one(aws_elasticache_serverless_cache.this[*].reader_endpoint[0].address)
}

output "port" {
  description = "Port of the endpoint."
  value       = var.create ? local.ports.from : null
}

output "user_name" {
  description = "ElastiCache user that feedfilter connects as; null with a password."
  value       = var.create && local.iam ? local.user_name : null
}

output "iam_policy_arn" {
  description = "Policy to attach to the role that feedfilter runs as."
  value       = one(aws_iam_policy.this[*].arn)
}

output "iam_policy_json" {
  description = "The same policy as JSON, for a role that takes it inline."
  value       = one(aws_iam_policy.this[*].policy)
}

output "security_group_id" {
  description = "Security group that the module made; null with your own."
  value       = one(aws_security_group.this[*].id)
}

output "kms_key_arn" {
  description = "KMS key of the data, snapshots, logs and the alarm topic."
  value       = var.create ? local.kms_key_arn : null
}

output "sns_topic_arn" {
  description = "SNS topic that alarms go to; null without alarms."
  value       = var.create && var.alarms.enabled ? local.topic_arn : null
}

output "nodes_without_alarms" {
  description = "Cluster nodes without alarms: none, unless autoscaling numbered shards past its maximum."
  value       = !var.alarms.enabled ? [] : setsubtract(local.member_clusters, local.nodes)
}
