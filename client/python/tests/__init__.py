"""Tests of the package. test_core needs no service; the others say how to start one."""
