# No nodes to choose: ElastiCache follows the load, up to limits that bound the bill.

provider "aws" {
  region = var.region
}

module "cache" {
  source = "../.."

  name                      = "feedfilter"
  vpc_id                    = var.vpc_id
  subnet_ids                = var.subnet_ids
  client_security_group_ids = { feedfilter = var.service_security_group_id }

  serverless = {
    data_storage_gb = { maximum = 20 }
    ecpu_per_second = { maximum = 100000 }
  }

  alarms = { emails = var.alarm_emails }
}

resource "aws_iam_role_policy_attachment" "service" {
  role       = var.service_role_name
  policy_arn = module.cache.iam_policy_arn
}
