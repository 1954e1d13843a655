"""What every model is and can do, whatever its method.

    recommender      the contract: what a model writes, fitting, and the questions it is asked
    config           its settings; data_defaults: those that follow the data; search_space: how far a search goes
    answering        lists: functions that take a model, as are
    listing          the same with external ids,
    similar          near items,
    explaining       reasons, by the lift of scores over popularity (lift), and
    updating         more data for a fitted model
    foldin           the vector of a person who was not in training
    derived          what is made from a fitted model once
    model_folder     a fitted model on disk
    iterative        models that are fitted in epochs
    fitted_on        the data of a fit: what it must have, and what a model remembers of it

A method imports from here; nothing here imports a method or a family.
"""
