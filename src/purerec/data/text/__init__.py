"""Text files of interactions: from bytes to rows of text.

contents      the text of a file as UTF-8, opened, decompressed and decoded
sniffing      its delimiter, header and columns
scanning      whether all rows have the same number of fields, and what quotation marks mean
delimited     its rows, as text or with given types
table         its rows as Interactions
adjacency     its lists of items per user
"""
