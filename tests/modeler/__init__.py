"""Owns the tests of the door for Camunda 8 clients: Modeler's own requests, and Camunda's own client packages."""
