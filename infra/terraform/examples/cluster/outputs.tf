output "redis_url" {
  description = "URL for feedfilter's --redis."
  value       = module.cache.redis_url
}
