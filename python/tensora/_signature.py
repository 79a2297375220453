"""The signature of a function of the core, from the first line of its documentation."""
import inspect


def of(function):
    """What inspect.signature shows."""
    line = function.__doc__.split("\n", 1)[0]
    names = line[line.index("(") + 1:line.rindex(")")]
    parameters, keyword_only = [], False
    for part in filter(None, (p.strip() for p in names.split(", "))):
        if part == "*":
            keyword_only = True
            continue
        name, _, default = part.partition("=")
        if not name.isidentifier():
            continue
        parameters.append(inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY if keyword_only else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=_Shown(default) if default else inspect.Parameter.empty))
    return inspect.Signature(parameters, __validate_parameters__=False)


class _Shown:
    """A default, printed as it is written."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text
