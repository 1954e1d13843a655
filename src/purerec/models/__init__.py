"""The eighteen methods, one file each, by name in `registry`.

    contract/    what all models do: fitting, storing, answering, explaining, updating, folding in
    families/    code that several methods share

May import everything above it: errors to engines."""
