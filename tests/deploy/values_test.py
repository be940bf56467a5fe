#!/usr/bin/env python3
"""Every key of the chart's values, as values.schema.json has them: each one is used by a template, and whatever is written there is
refused in a sentence or makes manifests without holes in them."""

import concurrent.futures
import json
import re
import unittest

from charttools import CHART, HELM, YAML, needs, template

SCHEMA = json.loads((CHART / "values.schema.json").read_text())

# With these, every key matters: everything that can be on is. Not all can be on at once.
COMMON = {
    "shard": {"replicas": 6, "replication": 2}, "serviceAccount": {"name": "account"},
    "metrics": {"serviceMonitor": {"enabled": True}, "rules": {"enabled": True}, "dashboards": {"enabled": True}},
    "snapshots": {"existingClaim": "snapshots", "schedule": "@daily"},
}
OUTSIDE = {"shard": {"external": {"enabled": True}}, "networkPolicy": {"jobs": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}}
BASES = [
    [COMMON, {"coordinator": {"replicas": 3}, "etcd": {"enabled": True}}],
    [COMMON],
    [COMMON, OUTSIDE, {"coordinator": {"service": {"type": "NodePort"}}}],
]
# A key, and the values that it needs beside it.
BESIDE = {
    "shard.persistence.enabled": {"shard": {"persistence": {"enabled": False}}, "coordinator": {"persistence": {"enabled": False}}},
    "coordinator.persistence.enabled": {"shard": {"persistence": {"enabled": False}}},
    "etcd.persistence.enabled": {"etcd": {"replicas": 1}, "shard": {"persistence": {"enabled": False}}},
    "externalEtcd.endpoints": {"etcd": {"enabled": False}},
    "shard.external.type": {"shard": {"external": {"host": "shard-{ordinal}.example"}}},
    "coordinator.service.type": {"networkPolicy": {"enabled": False}},
    "coordinator.extraVolumeMounts": {"coordinator": {"extraVolumes": [{"name": "more", "emptyDir": {}}]}},
    "shard.extraVolumeMounts": {"shard": {"extraVolumes": [{"name": "more", "emptyDir": {}}]}},
    **{f"autoscaling.{key}": {"autoscaling": {"enabled": True}} for key in (
        "minReplicas", "maxReplicas", "busyPercent", "memoryPercent", "scaleDownAfterSeconds", "scaleDownPeriodSeconds")},
    "autoscaling.kind": {"autoscaling": {"enabled": True, "prometheus": "http://prometheus"}},
    "autoscaling.prometheus": {"autoscaling": {"enabled": True, "kind": "keda"}},
}
HOLE = re.compile(r"<nil>|<no value>|%!|^.*: *map\[|=$|=['\"]$", re.MULTILINE)


def resolve(schema):
    return {**SCHEMA["definitions"][schema["$ref"].rsplit("/", 1)[1]], **schema} if "$ref" in schema else schema


def keys(schema=SCHEMA, path=()):
    """All keys, as (path, schema); objects whose keys are known come before these."""
    for key, below in schema["properties"].items():
        below = resolve(below)
        yield (*path, key), below
        if "properties" in below:
            yield from keys(below, (*path, key))


LEAVES = [(path, schema) for path, schema in keys() if "properties" not in schema]
DEFAULTS = None


def default(path):
    global DEFAULTS
    import yaml
    DEFAULTS = DEFAULTS or yaml.safe_load((CHART / "values.yaml").read_text())
    value = DEFAULTS
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def others(path, schema):
    """Values that the key may have and does not have by default."""
    if "examples" in schema:
        return schema["examples"]
    if schema.get("type") == "boolean":
        return [True, False]
    if schema.get("type") == "integer":
        value = default(path) or 0
        return [value + 1, value - 1]
    return [value for value in schema["enum"] if value != default(path)]


def nest(path, value):
    for key in reversed(path):
        value = {key: value}
    return value


def render(base, *more):
    """(whether it worked, what it says). Each of `base` and `more` is a dict of values; later ones win."""
    arguments = []
    for values in [*base, *more]:
        arguments += [f"--set-json={key}={json.dumps(below)}" for key, below in flat(values)]
    done = template(*arguments)
    return done.returncode == 0, done.stdout if done.returncode == 0 else done.stderr


def flat(values, prefix=""):
    """Dotted names for --set-json, which replaces objects as a whole."""
    for key, value in values.items():
        if isinstance(value, dict) and value and "." not in "".join(value):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def each(call, items):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return [problem for problem in pool.map(call, items) if problem]


@needs(HELM and YAML, "helm and kubernetes-validate")
class ValuesTest(unittest.TestCase):
    maxDiff = None

    def test_the_defaults_are_all_keys(self):
        """values.yaml is where people look: nothing is in the schema only."""
        missing = [".".join(path) for path, _ in keys() if default(path[:-1]) is not None and path[-1] not in default(path[:-1])]
        self.assertEqual([name for name in missing if not name.endswith(("initialDelaySeconds", ".claims"))], [])

    def test_unknown_keys_are_refused_everywhere(self):
        objects = [((), SCHEMA), *((path, schema) for path, schema in keys() if "properties" in schema)]
        open_ones = [".".join(path) for path, schema in objects if schema.get("additionalProperties") is not False]
        self.assertEqual(open_ones, ["global"])  # a parent chart shares it with its other parts

    def test_every_key_is_used(self):
        bases = [(base, render(base)) for base in BASES]
        for _, (worked, said) in bases:
            self.assertTrue(worked, said)

        def unused(leaf):
            path, schema = leaf
            name, said = ".".join(path), ""
            beside = BESIDE.get(name, {})
            for base, (_, before) in bases:
                if beside:
                    worked, before = render(base, beside, nest(path, default(path)))
                    before = before if worked else "refused"  # as its default is with what is beside it
                for value in others(path, schema):
                    worked, after = render(base, beside, nest(path, value))
                    if worked and before and after != before:
                        return None
                    said = said if worked else after
            return f"{name}: changes nothing; {said}"

        self.assertGreater(len(LEAVES), 190)
        self.assertEqual(each(unused, LEAVES), [])

    def refused_or_whole(self, changes):
        """Of (path, value): each is refused by the schema or a check, or makes manifests without holes."""
        import yaml

        def wrong(change):
            path, value = change
            worked, said = render(BASES[0], nest(path, value))
            what = f"{'.'.join(path)}={json.dumps(value)}"
            if not worked:
                refusal = "values don't meet the specifications of the schema" in said or "execution error at" in said
                return None if refusal else f"{what}: breaks a template: {said}"
            if hole := HOLE.search(said):
                return f"{what}: makes {hole.group()}"
            try:
                list(yaml.safe_load_all(said))
            except yaml.YAMLError as error:
                return f"{what}: makes no YAML: {error}"
            return None

        self.assertEqual(each(wrong, changes), [])

    def test_any_key_may_be_taken_away(self):
        self.refused_or_whole([(path, None) for path, _ in keys()])

    def test_any_key_may_be_of_another_type(self):
        self.refused_or_whole([(path, [["x"]] if schema.get("type") != "array" else "x") for path, schema in keys()])

    def test_words_with_spaces_and_negative_numbers_are_refused(self):
        bad = {"string": "two words", "integer": -1}
        changes = [(path, bad[schema["type"]]) for path, schema in LEAVES if schema.get("type") in ("string", "integer")]

        def taken(change):
            worked, _ = render(BASES[0], nest(*change))
            return f"{'.'.join(change[0])}={change[1]} is taken" if worked else None

        self.assertGreater(len(changes), 80)
        self.assertEqual(each(taken, changes), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
