"""Data movement as copies between strided views, shared by all devices."""
