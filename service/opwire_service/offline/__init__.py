"""Runs operators and DxDispatch models without a server."""
