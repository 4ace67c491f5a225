# Two shards with a replica each, in two or more availability zones. They grow to six shards.

provider "aws" {
  region = var.region
}

module "cache" {
  source = "../.."

  name                      = "feedfilter"
  vpc_id                    = var.vpc_id
  subnet_ids                = var.subnet_ids
  client_security_group_ids = { feedfilter = var.service_security_group_id }

  cluster = {
    node_type          = "cache.r7g.large"
    shards             = 2
    replicas_per_shard = 1

    autoscaling = {
      shards = { min = 2, max = 6 }
    }
  }

  alarms = { emails = var.alarm_emails }
}

resource "aws_iam_role_policy_attachment" "service" {
  role       = var.service_role_name
  policy_arn = module.cache.iam_policy_arn
}
