"""Generated from proto/feedfilter/v1 by make proto. The package feedfilter hides it."""
