"""What is known about items besides who liked them: a table with a row for each, and conditions on its columns.

columns       numbers, flags, words and tags
table         the columns of all items, aligned with the items of a model
reading       a table from a file or DataFrame
conditions    'genre=Comedy', 'year>=1990', 'in_stock'
"""
