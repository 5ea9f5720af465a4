"""The path of a request below HTTP: checked, scheduled, run on a device and encoded, within bounds."""
