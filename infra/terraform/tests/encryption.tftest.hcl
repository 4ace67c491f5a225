# What lies on disks and goes over the network is encrypted.

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
    condition     = tobool(aws_elasticache_replication_group.fixed[0].at_rest_encryption_enabled)
    error_message = "The group's data is not encrypted at rest."
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].transit_encryption_enabled
    error_message = "The group does not speak TLS."
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].transit_encryption_mode == "required"
    error_message = "The group also takes connections without TLS."
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].kms_key_id == aws_kms_key.this[0].arn
    error_message = "The group's data is not under the module's key."
  }

  assert {
    condition     = aws_kms_key.this[0].enable_key_rotation
    error_message = "The key is not rotated."
  }

  assert {
    condition     = aws_kms_key.this[0].deletion_window_in_days == 30
    error_message = "A key deleted by mistake is gone too soon."
  }

  assert {
    condition = alltrue([
      for s in jsondecode(aws_kms_key.this[0].policy).Statement :
      s.Principal == { AWS = "arn:aws:iam::123456789012:root" } || can(s.Condition)
    ])
    error_message = "The key's policy lets others in without a condition."
  }

  assert {
    condition = toset([for s in jsondecode(aws_kms_key.this[0].policy).Statement : jsonencode(s.Principal)]) == toset([
      jsonencode({ AWS = "arn:aws:iam::123456789012:root" }),
      jsonencode({ Service = "logs.eu-central-1.amazonaws.com" }),
      jsonencode({ Service = "cloudwatch.amazonaws.com" }),
    ])
    error_message = "The key's policy is for others than the account, its logs and its alarms."
  }

  assert {
    condition = [
      for s in jsondecode(aws_kms_key.this[0].policy).Statement : s.Condition if s.Sid == "Logs"
      ] == [{
        ArnLike = {
          "kms:EncryptionContext:aws:logs:arn" = "arn:aws:logs:eu-central-1:123456789012:log-group:/aws/vendedlogs/elasticache/pages/*"
        }
    }]
    error_message = "The key can be used for other logs."
  }

  assert {
    condition = [
      for s in jsondecode(aws_kms_key.this[0].policy).Statement : s.Condition if s.Sid == "Alarms"
    ] == [{ StringEquals = { "aws:SourceAccount" = "123456789012" } }]
    error_message = "The key can be used for alarms of other accounts."
  }

  assert {
    condition     = alltrue([for l in aws_cloudwatch_log_group.this : l.kms_key_id == aws_kms_key.this[0].arn])
    error_message = "Logs are not under the module's key."
  }

  assert {
    condition     = aws_sns_topic.alarms[0].kms_master_key_id == aws_kms_key.this[0].arn
    error_message = "The topic is not under the module's key."
  }
}

run "a_given_key_is_used_everywhere" {
  variables {
    kms_key_arn = "arn:aws:kms:eu-central-1:123456789012:key/given"
  }

  assert {
    condition = alltrue([
      for id in concat(
        [aws_elasticache_replication_group.fixed[0].kms_key_id, aws_sns_topic.alarms[0].kms_master_key_id, output.kms_key_arn],
        values(aws_cloudwatch_log_group.this)[*].kms_key_id,
      ) : id == var.kms_key_arn
    ])
    error_message = "Something is not under the key that was given."
  }

  assert {
    condition     = length(aws_kms_key.this) == 0 && length(aws_kms_alias.this) == 0
    error_message = "A key is made beside the one that was given."
  }
}
