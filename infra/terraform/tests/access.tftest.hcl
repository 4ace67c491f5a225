# Who may connect, and what they may do.

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
    condition     = aws_elasticache_user.this[0].authentication_mode[0].type == "iam"
    error_message = "The user does not log in by IAM."
  }

  assert {
    condition     = aws_elasticache_user.this[0].passwords == null && aws_elasticache_user.this[0].no_password_required != true
    error_message = "The user also logs in otherwise."
  }

  # IAM refuses a user whose name is not its id.
  assert {
    condition     = aws_elasticache_user.this[0].user_name == "pages" && aws_elasticache_user.this[0].user_id == "pages"
    error_message = "The user's name is not its id."
  }

  assert {
    condition = [
      for w in split(" ", aws_elasticache_user.this[0].access_string) : w if can(regex("^[~%&]|keys|channels", w))
    ] == ["~fav:*"]
    error_message = "The user reaches other keys or channels than feedfilter's."
  }

  assert {
    condition     = startswith(aws_elasticache_user.this[0].access_string, "on ~fav:* -@all ")
    error_message = "The user does not begin with no commands."
  }

  assert {
    condition = toset([for w in split(" ", aws_elasticache_user.this[0].access_string) : w if startswith(w, "+")]) == toset([
      "+auth", "+hello", "+ping", "+client|setname", "+client|setinfo", "+command", "+info", "+cluster|slots", "+asking", "+readonly",
      "+cluster|info",
      "+mget", "+get", "+getrange", "+strlen", "+bitcount", "+bitfield",
      "+set", "+setrange", "+del", "+persist", "+eval", "+evalsha",
    ])
    error_message = "The user's commands are not those that feedfilter sends."
  }

  assert {
    condition     = aws_elasticache_user_group.this[0].user_ids == toset(["pages"])
    error_message = "There are other users."
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].user_group_ids == toset([aws_elasticache_user_group.this[0].user_group_id])
    error_message = "The cache does not ask who connects."
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].auth_token == null
    error_message = "The cache has a password."
  }

  # The provider refuses it.
  assert {
    condition     = aws_elasticache_replication_group.fixed[0].auth_token_update_strategy == null
    error_message = "There is a strategy for a password that there is not."
  }

  assert {
    condition = jsondecode(aws_iam_policy.this[0].policy).Statement == [
      {
        Sid      = "Connect"
        Effect   = "Allow"
        Action   = ["elasticache:Connect"]
        Resource = [aws_elasticache_replication_group.fixed[0].arn, aws_elasticache_user.this[0].arn]
      },
      {
        Sid      = "Discover"
        Effect   = "Allow"
        Action   = ["elasticache:DescribeReplicationGroups"]
        Resource = [aws_elasticache_replication_group.fixed[0].arn]
      },
    ]
    error_message = "The policy is not what feedfilter needs, no more and no less."
  }

  assert {
    condition = { for k, r in aws_vpc_security_group_ingress_rule.clients : k => [
      r.security_group_id, r.referenced_security_group_id, r.ip_protocol, r.from_port, r.to_port
    ] } == { service = ["sg-0cache", "sg-0service", "tcp", 6379, 6379] }
    error_message = "The security group does not let in what was given, at the port."
  }

  assert {
    condition = alltrue([
      for r in aws_vpc_security_group_ingress_rule.clients : r.cidr_ipv4 == null && r.cidr_ipv6 == null && r.prefix_list_id == null
    ])
    error_message = "The security group lets addresses in."
  }

  assert {
    condition = (
      length(aws_security_group.this[0].ingress == null ? [] : aws_security_group.this[0].ingress) == 0 &&
      length(aws_security_group.this[0].egress == null ? [] : aws_security_group.this[0].egress) == 0
    )
    error_message = "The security group has rules of its own."
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].security_group_ids == toset(["sg-0cache"])
    error_message = "The cache is not in the module's security group alone."
  }

  assert {
    condition     = aws_security_group.this[0].vpc_id == "vpc-0a"
    error_message = "The security group is not in the VPC."
  }

  assert {
    condition     = aws_elasticache_subnet_group.this[0].subnet_ids == toset(["subnet-0a", "subnet-0b"])
    error_message = "The subnet group has other subnets."
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].subnet_group_name == aws_elasticache_subnet_group.this[0].name
    error_message = "The cache is not in the subnet group."
  }
}

run "a_port_of_ones_own" {
  variables {
    cluster = { node_type = "cache.r7g.large", port = 7000 }
  }

  assert {
    condition = [
      aws_elasticache_replication_group.fixed[0].port,
      aws_vpc_security_group_ingress_rule.clients["service"].from_port,
      aws_vpc_security_group_ingress_rule.clients["service"].to_port,
      output.port,
    ] == [7000, 7000, 7000, 7000]
    error_message = "The port is not the same everywhere."
  }
}

run "a_password_instead_of_iam" {
  variables {
    auth_secret = {
      arn         = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:redis-Ab12"
      kms_key_arn = "arn:aws:kms:eu-central-1:123456789012:key/secret"
    }
    auth_token = "0123456789abcdef"
  }

  assert {
    condition     = nonsensitive(aws_elasticache_replication_group.fixed[0].auth_token) == "0123456789abcdef"
    error_message = "The cache does not have the password."
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].auth_token_update_strategy == "ROTATE"
    error_message = "The password before does not stay valid."
  }

  assert {
    condition     = length(aws_elasticache_user.this) + length(aws_elasticache_user_group.this) == 0
    error_message = "There are users beside the password."
  }

  assert {
    condition = output.redis_url == join("", [
      "elasticache://pages?region=eu-central-1",
      "&secret=arn%3Aaws%3Asecretsmanager%3Aeu-central-1%3A123456789012%3Asecret%3Aredis-Ab12",
    ])
    error_message = "The URL does not name the secret."
  }

  assert {
    condition     = output.user_name == null
    error_message = "There is a user name beside the password."
  }

  assert {
    condition = [for s in jsondecode(aws_iam_policy.this[0].policy).Statement : [s.Sid, s.Action, s.Resource]] == [
      ["Discover", ["elasticache:DescribeReplicationGroups"], [aws_elasticache_replication_group.fixed[0].arn]],
      ["ReadSecret", ["secretsmanager:GetSecretValue"], ["arn:aws:secretsmanager:eu-central-1:123456789012:secret:redis-Ab12"]],
      ["DecryptSecret", ["kms:Decrypt"], ["arn:aws:kms:eu-central-1:123456789012:key/secret"]],
    ]
    error_message = "The policy is not what feedfilter needs with a password."
  }

  assert {
    condition = [for s in jsondecode(aws_iam_policy.this[0].policy).Statement : s.Condition if s.Sid == "DecryptSecret"] == [
      { StringEquals = { "kms:ViaService" = "secretsmanager.eu-central-1.amazonaws.com" } }
    ]
    error_message = "The key can be used for more than the secret."
  }
}

run "the_password_before_is_ended" {
  variables {
    auth_secret                = { arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:redis-Ab12" }
    auth_token                 = "0123456789abcdef"
    auth_token_update_strategy = "SET"
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].auth_token_update_strategy == "SET"
    error_message = "The password before cannot be ended."
  }
}
