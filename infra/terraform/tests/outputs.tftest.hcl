# What the module gives to others.

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

run "outputs" {
  assert {
    condition     = output.redis_url == "elasticache://pages?region=eu-central-1&user=pages"
    error_message = "The URL is not that of the group."
  }
  assert {
    condition = [
      output.configuration_endpoint_address, output.port, output.arn, output.user_name, output.security_group_id,
      output.kms_key_arn, output.iam_policy_arn, output.iam_policy_json,
      ] == [
      "clustercfg.pages.example.com", 6379, aws_elasticache_replication_group.fixed[0].arn, "pages", "sg-0cache",
      aws_kms_key.this[0].arn, aws_iam_policy.this[0].arn, aws_iam_policy.this[0].policy,
    ]
    error_message = "An output is not what it says."
  }
  assert {
    condition     = output.primary_endpoint_address == null && output.reader_endpoint_address == null
    error_message = "A cluster has the configuration endpoint alone."
  }
}

run "a_user_name_of_ones_own" {
  variables {
    user_name = "feed-reader"
  }
  assert {
    condition     = output.redis_url == "elasticache://pages?region=eu-central-1&user=feed-reader" && output.user_name == "feed-reader"
    error_message = "The URL does not have the user's name."
  }
  assert {
    condition     = aws_elasticache_user.this[0].user_id == "feed-reader" && aws_elasticache_user.this[0].user_name == "feed-reader"
    error_message = "The user does not have the name."
  }
}
