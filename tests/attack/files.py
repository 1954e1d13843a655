"""The content of folders, and a command that writes one."""


def everything(folder):
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def fit(csv, out, *more):
    return "fit", csv, "--model", "itempop", "--out", out, *more
