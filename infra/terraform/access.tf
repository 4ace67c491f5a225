locals {
  # All commands that feedfilter, its Redis client and its scripts send, on feedfilter's own keys.
  # CLIENT SETNAME is for client_name=, READONLY for reader=true, ASKING for slots that move.
  # CLUSTER INFO is for feedfilter doctor.
  access_string = join(" ", concat(
    ["on", "~fav:*", "-@all"],
    ["+auth", "+hello", "+ping", "+client|setname", "+client|setinfo", "+command", "+info", "+cluster|slots", "+asking", "+readonly"],
    ["+cluster|info"],
    ["+mget", "+get", "+getrange", "+strlen", "+bitcount", "+bitfield"],
    ["+set", "+setrange", "+del", "+persist", "+eval", "+evalsha"],
  ))
}

# IAM requires that the name and the id of the user are equal.
resource "aws_elasticache_user" "this" {
  count = var.create && local.iam ? 1 : 0

  user_id       = local.user_name
  user_name     = local.user_name
  engine        = "valkey"
  access_string = local.access_string
  tags          = var.tags

  authentication_mode {
    type = "iam"
  }
}

# This is the only user: a Valkey group needs no default user.
resource "aws_elasticache_user_group" "this" {
  count = var.create && local.iam ? 1 : 0

  user_group_id = var.name
  engine        = "valkey"
  user_ids      = [aws_elasticache_user.this[0].user_id]
  tags          = var.tags
}

locals {
  connect_statement = !local.iam ? [] : [{
    Sid      = "Connect"
    Effect   = "Allow"
    Action   = ["elasticache:Connect"]
    Resource = [local.cache_arn, one(aws_elasticache_user.this[*].arn)]
  }]
  # feedfilter looks up the endpoints.
  discover_statement = [{
    Sid      = "Discover"
    Effect   = "Allow"
    Action   = [var.cluster != null ? "elasticache:DescribeReplicationGroups" : "elasticache:DescribeServerlessCaches"]
    Resource = [local.cache_arn]
  }]
  secret_statement = local.iam ? [] : [{
    Sid      = "ReadSecret"
    Effect   = "Allow"
    Action   = ["secretsmanager:GetSecretValue"]
    Resource = [var.auth_secret.arn]
  }]
  secret_key_statement = try(var.auth_secret.kms_key_arn, null) == null ? [] : [{
    Sid       = "DecryptSecret"
    Effect    = "Allow"
    Action    = ["kms:Decrypt"]
    Resource  = [var.auth_secret.kms_key_arn]
    Condition = { StringEquals = { "kms:ViaService" = "secretsmanager.${local.region}.amazonaws.com" } }
  }]
}

resource "aws_iam_policy" "this" {
  count = var.create ? 1 : 0

  name_prefix = "${var.name}-"
  description = "What feedfilter needs to find and use the cache ${var.name}"
  tags        = var.tags

  policy = jsonencode({
    Version   = "2012-10-17"
    Statement = concat(local.connect_statement, local.discover_statement, local.secret_statement, local.secret_key_statement)
  })
}
