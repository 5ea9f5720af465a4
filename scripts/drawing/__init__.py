"""Pictures of what operators do, drawn from their worked examples."""
