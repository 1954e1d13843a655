"""The eighteen methods, one file each, by name in `registry`.

    contract/    what all models do: fitting, storing, answering, explaining, updating, folding in
    families/    code that several methods share

May import errors to engines, in the order of CONTRIBUTING.md.
"""
