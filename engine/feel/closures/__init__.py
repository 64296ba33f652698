"""One module for each family of syntax forms: how it becomes a Python closure.
Never evaluates at compile time except to fold constants.
Called by `engine.feel.expression`.
"""
