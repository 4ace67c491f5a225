terraform {
  # 1.9: the validation of a variable may use other variables.
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source = "hashicorp/aws"
      # 6.51: durability of a replication group.
      version = ">= 6.51"
    }
  }
}
