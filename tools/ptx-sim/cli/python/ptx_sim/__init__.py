"""Helpers for programs that run under `ptx-sim run`."""
