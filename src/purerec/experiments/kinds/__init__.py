"""Kinds of experiments other than comparisons: from a spec to the content of the results file.

game                D over time, real and generated embeddings, scores of positives and others
relevance           true and estimated relevance in a synthetic world
prior_estimation    estimates of the class prior, where it is known
other_fakes         fakes that do not come from PURE's generators
similar             whether similar items are liked by the same people
charts              charts as they are written to results files
"""
