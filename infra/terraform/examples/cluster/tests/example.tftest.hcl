mock_provider "aws" {
  source = "../../tests/mocks"
}

variables {
  vpc_id                    = "vpc-0a"
  subnet_ids                = ["subnet-0a", "subnet-0b"]
  service_security_group_id = "sg-0service"
  service_role_name         = "feedfilter"
}

run "example" {
  assert {
    condition     = output.redis_url == "elasticache://feedfilter?region=eu-central-1&user=feedfilter"
    error_message = "The URL is not that of the cache."
  }

  assert {
    condition     = aws_iam_role_policy_attachment.service.policy_arn == module.cache.iam_policy_arn
    error_message = "The service does not have the policy of the cache."
  }
}
