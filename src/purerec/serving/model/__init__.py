"""A model in memory, and its answers to requests.

loaded_model    the model being served, and how it is replaced
answers         from external ids to plain values for JSON
names           ids and titles, decoded from shared memory
search          items by title or id, people by id
columns         what the page needs to know about an item table
"""
