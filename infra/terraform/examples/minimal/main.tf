# One small node, to try things out. If the node or its zone fails, the ledger answers while all
# pages are rebuilt, and seen posts since the last daily snapshot are lost. It cannot scale
# automatically. Encryption, IAM, snapshots and alarms are as in the other examples.

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
    node_type          = "cache.t4g.small"
    replicas_per_shard = 0
    multi_az           = false
  }

  alarms = { emails = var.alarm_emails }
}

resource "aws_iam_role_policy_attachment" "service" {
  role       = var.service_role_name
  policy_arn = module.cache.iam_policy_arn
}
