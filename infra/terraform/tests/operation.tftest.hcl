# Events of the cluster, and how long Terraform waits.

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
    condition     = aws_elasticache_replication_group.fixed[0].notification_topic_arn == null
    error_message = "Events go to a topic that was not given."
  }

  # An empty block would be a change to groups that exist.
  assert {
    condition     = aws_elasticache_replication_group.fixed[0].timeouts == null
    error_message = "Terraform does not wait as long as the provider says."
  }
}

run "events" {
  variables {
    notification_topic_arn = "arn:aws:sns:eu-central-1:123456789012:events"
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].notification_topic_arn == "arn:aws:sns:eu-central-1:123456789012:events"
    error_message = "Events do not go to the topic."
  }
}

run "timeouts_of_a_cluster" {
  variables {
    timeouts = { create = "2h", update = "1h30m", delete = "50m" }
  }

  assert {
    condition     = aws_elasticache_replication_group.fixed[0].timeouts == { create = "2h", update = "1h30m", delete = "50m" }
    error_message = "Terraform does not wait for the cluster as long as it should."
  }
}

run "timeouts_of_a_serverless_cache" {
  variables {
    cluster    = null
    serverless = { data_storage_gb = { maximum = 20 }, ecpu_per_second = { maximum = 100000 } }
    timeouts   = { create = "2h", update = "1h30m", delete = "50m" }
  }

  assert {
    condition     = aws_elasticache_serverless_cache.this[0].timeouts == { create = "2h", update = "1h30m", delete = "50m" }
    error_message = "Terraform does not wait for the serverless cache as long as it should."
  }
}
