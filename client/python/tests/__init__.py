"""Tests of the package: test_core needs no service, and the others say how to start one."""
