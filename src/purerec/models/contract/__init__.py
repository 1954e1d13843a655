"""What every model is and can do, regardless of its method.

    recommender      the contract: what a model implements, fitting, and the queries it answers
    config           its settings; data_defaults: those that depend on the data; search_space: the bounds of a search
    answering        lists: functions that take a model, like
    listing          the same with external ids,
    similar          similar items,
    explaining       reasons, by the lift of scores over popularity (lift), and
    updating         more data for a fitted model
    foldin           the vector of a person who was not in training
    derived          what is computed from a fitted model once
    model_folder     a fitted model on disk
    iterative        models that are fitted in epochs
    fitted_on        the data of a fit: what it must have, and what a model remembers of it

Methods import from here; nothing here imports a method or a family.
"""
