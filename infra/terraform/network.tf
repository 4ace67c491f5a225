locals {
  # A serverless cache has its read endpoint at the second port, which reader=true uses. Without
  # reader=true the client still asks any known node for slots, and would wait for a closed port.
  ports = var.cluster != null ? { from = var.cluster.port, to = var.cluster.port } : { from = 6379, to = 6380 }
}

resource "aws_elasticache_subnet_group" "this" {
  count = var.cluster != null ? 1 : 0

  name        = var.name
  description = "Subnets of ${var.name}"
  subnet_ids  = var.subnet_ids
  tags        = var.tags
}

# Connections come in only from the clients' security groups. None go out.
resource "aws_security_group" "this" {
  name_prefix = "${var.name}-cache-"
  description = "Cache of feedfilter: ${var.name}"
  vpc_id      = var.vpc_id
  tags        = merge(var.tags, { Name = "${var.name}-cache" })

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_vpc_security_group_ingress_rule" "clients" {
  for_each = var.client_security_group_ids

  security_group_id            = aws_security_group.this.id
  referenced_security_group_id = each.value
  description                  = "Valkey from ${each.key}"
  ip_protocol                  = "tcp"
  from_port                    = local.ports.from
  to_port                      = local.ports.to
  tags                         = var.tags
}
