"""Cutting plans into units of work and running them on threads."""
