"""What runs operators and DxDispatch models without a server."""
