"""Owns the HTTP face of the gateway: routes by audience, and how every error is said in each protocol's own shape.
Never decides anything about a request's life; that is the diagram's.
Called by the gateway, which mounts it on uvicorn.
"""
