"""Movements as copies between strided views: what every device that moves elements starts from."""
