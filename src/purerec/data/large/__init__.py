"""Logs that are larger than memory.

places          files and folders on this machine, or anywhere that fsspec reaches
chunks          a large file in pieces, each checked as `read` checks a whole file
partitioning    which part of a data set a user belongs to
folders         Parquet files, and folders of them
shares          the positives of some parts: what one of several workers reads
dataset         the folders that `purerec ingest` writes, read as a whole or in part
"""
