"""Processes that serve: one alone, or several under a supervisor; signals, logging and memory."""
