"""Owns how syntax forms become Python closures: one module for each family of forms.
Never evaluates at compile time except to fold constants.
Called by `engine.feel.expression`.
"""
