output "redis_url" {
  description = "For feedfilter's --redis."
  value       = module.cache.redis_url
}
