"""What every model is and can do, regardless of its method.

    recommender      the contract: what a model implements, fitting, and the queries it answers
    own              a class of the user's own as a model
    config           its settings
    data_defaults    settings that depend on the data
    search_space     the bounds of a search
    iterative        models that are fitted in epochs
    trained          what they have learned, and how the fit went
    fitted_on        the data of a fit: what it must have, and what a model records about it
    derived          what is computed from a fitted model once
    answering        lists, by internal index
    listing          lists with external ids
    rules            what lists may contain, and how they are composed
    similar          similar items
    explaining       reasons
    lift             the lift of scores over popularity, on which reasons are based
    foldin           the vector of a person who was not in training: what a model provides (see `families.foldin`)
    updating         more data for a fitted model
    model_folder     a fitted model as a folder: what is saved, and how it is loaded

Methods import from here; nothing here imports a method or a family.
"""
