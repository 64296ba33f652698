"""Owns the service tasks of inference requests: one module per topic, and the parts that they share.
Never runs a diagram or answers a client; the engine calls the tasks, the diagram orders them.
Called by the composition root: importing registers every topic, open_resources opens what they share.
"""

from tasks import admit, check_health, fall_back, infer, route, settle
from tasks.resources import Resources, open_resources

__all__ = ["Resources", "admit", "check_health", "fall_back", "infer", "open_resources", "route", "settle"]
