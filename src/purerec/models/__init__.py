"""The eighteen methods, one file each, by name in `registry`.

    contract/    what every model is: fitting, storing, answering, explaining, updating, folding in
    families/    what several methods share

May import everything above it: errors to engines."""
