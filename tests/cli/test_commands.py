"""What all commands have in common: wrong use, help and exit codes, in a separate process."""

import pytest

from conftest import purerec


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["evaluate", "DATA"], "either --model NAME or --from DIR"),
        (["evaluate", "DATA", "--model", "oracle"], "unknown model 'oracle'; choose from itempop"),
        (["evaluate", "DATA", "--model", "itempop", "--set", "dim=3"], "no setting 'dim'"),
        (["evaluate", "DATA", "--model", "pure", "--set", "dim=0"], "greater than or equal to 1"),
        (["evaluate", "DATA", "--model", "pure", "--set", "dmi=8"], "did you mean dim?"),
        (["evaluate", "DATA", "--model", "pure", "--set", "dim"], "--set takes NAME=VALUE"),
        (["evaluate", "DATA", "--model", "itempop", "--split", "weekly"], "there is no split 'weekly'"),
        (["evaluate", "DATA", "--model", "itempop", "--split", "u1"], "official split"),
        (["evaluate", "DATA", "--model", "itempop", "--protocol", "magic"], "there is no protocol 'magic'"),
        (["evaluate", "DATA", "--model", "itempop", "--user", "uid"], "no column 'uid'"),
        (["evaluate", "DATA", "--model", "itempop", "--seed", "-1"], "seed must be"),
        (["evaluate", "nowhere.csv", "--model", "itempop"], "no such file"),
        (["evaluate", "ml-10k", "--model", "itempop"], "ml-100k"),
        (["evaluate", "DATA", "--model", "itempop", "--min-rating", "4"], "rating"),
        (["recommend", "MODEL", "--user", "nobody"], "user 'nobody' was not in training"),
        (["recommend", "MODEL"], "one of --user ID"),
        (["recommend", "nowhere", "--user", "u1"], "does not exist"),
        (["recommend", "MODEL", "--user", "u1", "-k", "0"], "k must be a whole number of at least 1, not 0"),
        (["fit", "DATA", "--model", "itempop", "--out", "DATA"], "is DATA itself"),
        (["compare", "DATA", "--models", "itempop,magic"], "unknown model 'magic'"),
        (["compare", "DATA", "--models", "itempop,ease", "--set", "dim=3"], "has a setting 'dim'"),
        (["compare", "DATA", "--models", "pure,ease", "--set", "dim=x"], "dim"),
        (["fit", "DATA"], "Missing option"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(clicks, model, args, message):
    done = purerec(*[{"DATA": clicks, "MODEL": model}.get(a, a) for a in args], check=2)
    assert message in done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1


def test_help_has_examples():
    for command in ("fit", "evaluate", "recommend", "compare"):
        assert "purerec " + command in purerec(command, "--help", check=0).stdout
    assert purerec("--version", check=0).stdout.startswith("purerec 0.")
