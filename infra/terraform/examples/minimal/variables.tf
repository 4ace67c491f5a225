variable "region" {
  type        = string
  description = "Region of the cache."
  default     = "eu-central-1"
}

variable "vpc_id" {
  type        = string
  description = "VPC that feedfilter runs in."
}

variable "subnet_ids" {
  type        = set(string)
  description = "Private subnets of the VPC, in two or more availability zones."
}

variable "service_security_group_id" {
  type        = string
  description = "Security group that feedfilter runs in."
}

variable "service_role_name" {
  type        = string
  description = "IAM role that feedfilter runs as."
}

variable "alarm_emails" {
  type        = set(string)
  description = "Email addresses that alarms go to."
  default     = []
}
