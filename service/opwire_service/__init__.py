"""The opwire service: what executes a plan and puts it on the network."""
