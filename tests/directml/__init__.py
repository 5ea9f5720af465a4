"""What is known of DirectML independently of opwire: its header and documentation, and its own answers."""
