# Maintenance and snapshot windows. The validation of a variable cannot use values computed from
# it. So the parameter group, which every cluster has, has these conditions: see main.tf.

locals {
  weekdays    = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
  weekday     = "(${join("|", local.weekdays)})"
  time_of_day = "([01][0-9]|2[0-3]):[0-5][0-9]"

  # Start and end in minutes of the week and of the day; null if unreadable.
  maintenance_window = try([
    for time in split("-", var.cluster.maintenance_window) :
    index(local.weekdays, split(":", time)[0]) * 1440 + split(":", time)[1] * 60 + split(":", time)[2]
  ], null)
  snapshot_window = try([for time in split("-", var.cluster.snapshot_window) : split(":", time)[0] * 60 + split(":", time)[1]], null)

  # Length in minutes. A window may go past the end of the week or the day.
  maintenance_minutes = try((local.maintenance_window[1] - local.maintenance_window[0] + 7 * 1440) % (7 * 1440), null)
  snapshot_minutes    = try((local.snapshot_window[1] - local.snapshot_window[0] + 1440) % 1440, null)

  # Snapshots are daily, so only the time of day counts. The windows do not overlap if each is no
  # longer than the time from its start to the next start of the other.
  windows_are_apart = try(
    (local.snapshot_window[0] - local.maintenance_window[0] + 7 * 1440) % 1440 >= local.maintenance_minutes &&
    (local.maintenance_window[0] - local.snapshot_window[0] + 1440) % 1440 >= local.snapshot_minutes,
    null
  )
}
