"""Owns golden logs: what instances were told and what came of it, frozen for ever."""
