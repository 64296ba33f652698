"""Owns the demonstration: real parts, real requests, one server killed, and what the audit says about it.
Never fakes a part or a figure, and is never needed to serve.
Called by the command `conch demo`; the benchmarks borrow its stage.
"""
