"""Owns the door for Camunda 8 clients: the Orchestration Cluster REST API under /v2, for Modeler and job workers.
Never decides what an instance does, and holds no state of its own; the services behind one object do.
Called by the app, which mounts it beside KServe's /v2 paths; the two sets of paths do not meet.
"""
