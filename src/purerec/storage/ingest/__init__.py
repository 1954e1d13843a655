"""From files of any size to a data set in parts, in bounded memory.

spilling    one piece of a file, sorted by part, in a folder of its own
merging     one vocabulary from those of all pieces; the rows of each part
ingest      the whole process, which can be interrupted and resumed
"""
