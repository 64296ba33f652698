"""Owns what outlives the process: the journal, the definitions, the leases and the queries over them, in Postgres.
Never decides what happens to an instance; it writes rows and reads them back.
Called by the runtime, the api's read routes and the command line.
"""
