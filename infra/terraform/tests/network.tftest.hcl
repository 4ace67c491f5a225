# Subnets, security groups and addresses that are given.

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
  # Another value would replace groups that exist.
  assert {
    condition     = !contains(["ipv4", "dual_stack", "ipv6"], try(coalesce(aws_elasticache_replication_group.fixed[0].network_type), "none"))
    error_message = "The addresses are not left to AWS."
  }
}

run "a_subnet_group_of_ones_own" {
  variables {
    subnet_ids        = null
    subnet_group_name = "own"
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].subnet_group_name == "own"
    error_message = "The cache is not in the subnet group that was given."
  }

  assert {
    condition     = length(aws_elasticache_subnet_group.this) == 0
    error_message = "A subnet group is made beside the one that was given."
  }
}

run "security_groups_of_ones_own" {
  variables {
    vpc_id                    = null
    client_security_group_ids = {}
    security_group_ids        = ["sg-0own", "sg-0other"]
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].security_group_ids == toset(["sg-0own", "sg-0other"])
    error_message = "The cache is not in the security groups that were given."
  }

  assert {
    condition     = length(aws_security_group.this) + length(aws_vpc_security_group_ingress_rule.clients) == 0
    error_message = "A security group is made beside those that were given."
  }

  assert {
    condition     = output.security_group_id == null
    error_message = "There is a security group among the outputs."
  }
}

run "security_groups_of_a_serverless_cache" {
  variables {
    cluster                   = null
    serverless                = { data_storage_gb = { maximum = 20 }, ecpu_per_second = { maximum = 100000 } }
    vpc_id                    = null
    client_security_group_ids = {}
    security_group_ids        = ["sg-0own"]
  }

  assert {
    condition     = aws_elasticache_serverless_cache.this[0].security_group_ids == toset(["sg-0own"])
    error_message = "The serverless cache is not in the security groups that were given."
  }
}

run "dual_stack" {
  variables {
    network_type = "dual_stack"
  }

  assert {
    condition = [
      aws_elasticache_replication_group.fixed[0].network_type, aws_elasticache_replication_group.fixed[0].ip_discovery,
    ] == ["dual_stack", "ipv4"]
    error_message = "The cluster does not have addresses of both kinds."
  }
}

run "ipv6" {
  variables {
    network_type = "ipv6"
  }

  assert {
    condition = [
      aws_elasticache_replication_group.fixed[0].network_type, aws_elasticache_replication_group.fixed[0].ip_discovery,
    ] == ["ipv6", "ipv6"]
    error_message = "The cluster does not have IPv6 addresses alone."
  }
}
