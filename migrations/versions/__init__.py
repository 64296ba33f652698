"""Owns the revisions, each with the SQL of the views it creates."""
