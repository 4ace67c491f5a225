locals {
  # A serverless cache has its read endpoint at the second port, which reader=true uses. Without
  # reader=true the client still asks any known node for slots, and would wait for a closed port.
  ports = var.cluster != null ? { from = var.cluster.port, to = var.cluster.port } : { from = 6379, to = 6380 }

  own_security_group = var.create && var.security_group_ids == null
  security_group_ids = local.own_security_group ? aws_security_group.this[*].id : var.security_group_ids
  subnet_group_name  = var.subnet_group_name != null ? var.subnet_group_name : one(aws_elasticache_subnet_group.this[*].name)

  # AWS wants an ip_discovery that fits. With TLS it has no other effect: nodes have host names.
  ip_discovery = var.network_type == "dual_stack" ? "ipv4" : var.network_type
}

resource "aws_elasticache_subnet_group" "this" {
  count = local.cluster != null && var.subnet_group_name == null ? 1 : 0

  name        = var.name
  description = "Subnets of ${var.name}"
  subnet_ids  = var.subnet_ids
  tags        = var.tags
}

# Connections come in only from the clients' security groups. None go out.
resource "aws_security_group" "this" {
  count = local.own_security_group ? 1 : 0

  name_prefix = "${var.name}-cache-"
  description = "Cache of feedfilter: ${var.name}"
  vpc_id      = var.vpc_id
  tags        = merge(var.tags, { Name = "${var.name}-cache" })

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_vpc_security_group_ingress_rule" "clients" {
  for_each = local.own_security_group ? var.client_security_group_ids : {}

  security_group_id            = aws_security_group.this[0].id
  referenced_security_group_id = each.value
  description                  = "Valkey from ${each.key}"
  ip_protocol                  = "tcp"
  from_port                    = local.ports.from
  to_port                      = local.ports.to
  tags                         = var.tags
}
