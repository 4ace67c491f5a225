# What AWS would answer, in the form that the provider's own checks want it.

mock_data "aws_caller_identity" {
  defaults = { account_id = "123456789012" }
}

mock_data "aws_partition" {
  defaults = { partition = "aws" }
}

mock_data "aws_region" {
  defaults = { id = "eu-central-1" }
}

mock_resource "aws_kms_key" {
  defaults = { arn = "arn:aws:kms:eu-central-1:123456789012:key/own", key_id = "own" }
}

mock_resource "aws_security_group" {
  defaults = { id = "sg-0cache" }
}

mock_resource "aws_sns_topic" {
  defaults = { arn = "arn:aws:sns:eu-central-1:123456789012:own" }
}

mock_resource "aws_iam_policy" {
  defaults = { arn = "arn:aws:iam::123456789012:policy/own" }
}

mock_resource "aws_elasticache_user" {
  defaults = { arn = "arn:aws:elasticache:eu-central-1:123456789012:user:pages" }
}

mock_resource "aws_elasticache_replication_group" {
  defaults = {
    arn                            = "arn:aws:elasticache:eu-central-1:123456789012:replicationgroup:pages"
    configuration_endpoint_address = "clustercfg.pages.example.com"
    member_clusters                = ["pages-0001-001", "pages-0001-002"]
  }
}

mock_resource "aws_elasticache_serverless_cache" {
  defaults = {
    arn             = "arn:aws:elasticache:eu-central-1:123456789012:serverlesscache:pages"
    endpoint        = [{ address = "pages.serverless.example.com", port = 6379 }]
    reader_endpoint = [{ address = "pages.serverless.example.com", port = 6380 }]
  }
}

mock_resource "aws_appautoscaling_target" {
  defaults = { arn = "arn:aws:application-autoscaling:eu-central-1:123456789012:scalable-target/own" }
}
