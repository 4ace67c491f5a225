locals {
  kms_key_arn = var.kms_key_arn != null ? var.kms_key_arn : one(aws_kms_key.this[*].arn)

  log_group_prefix = "/aws/vendedlogs/elasticache/${var.name}"
  log_group_arns   = "arn:${local.partition}:logs:${local.region}:${local.account}:log-group:${local.log_group_prefix}/*"
}

resource "aws_kms_key" "this" {
  count = var.create && var.kms_key_arn == null ? 1 : 0

  description             = "Data, snapshots, logs and alarms of ${var.name}"
  enable_key_rotation     = true
  deletion_window_in_days = 30
  policy                  = local.kms_key_policy
  tags                    = var.tags
}

resource "aws_kms_alias" "this" {
  count = var.create && var.kms_key_arn == null ? 1 : 0

  name          = "alias/${var.name}-cache"
  target_key_id = aws_kms_key.this[0].key_id
}

locals {
  kms_key_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        # IAM policies of the account control the use of the key, also the use by ElastiCache on
        # behalf of the creator of the cache.
        Sid       = "Account"
        Effect    = "Allow"
        Principal = { AWS = "arn:${local.partition}:iam::${local.account}:root" }
        Action    = "kms:*"
        Resource  = "*"
      },
      {
        Sid       = "Logs"
        Effect    = "Allow"
        Principal = { Service = "logs.${local.region}.amazonaws.com" }
        Action    = ["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"]
        Resource  = "*"
        Condition = {
          ArnLike = { "kms:EncryptionContext:aws:logs:arn" = local.log_group_arns }
        }
      },
      {
        # Without this, alarms cannot publish to the encrypted topic.
        Sid       = "Alarms"
        Effect    = "Allow"
        Principal = { Service = "cloudwatch.amazonaws.com" }
        Action    = ["kms:Decrypt", "kms:GenerateDataKey*"]
        Resource  = "*"
        Condition = { StringEquals = { "aws:SourceAccount" = local.account } }
      },
    ]
  })
}

resource "aws_cloudwatch_log_group" "this" {
  for_each = toset(local.cluster != null ? ["engine-log", "slow-log"] : [])

  name              = "${local.log_group_prefix}/${each.key}"
  retention_in_days = var.log_retention_days
  kms_key_id        = local.kms_key_arn
  tags              = var.tags
}
