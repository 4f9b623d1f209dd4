"""The JSON schemas of evals/schemas say what the program reads and writes.

python3 tests/e2e/schemas/check_schemas.py --skippy PROGRAM --evals FOLDER

Committed files must match their schemas. Documents that are wrong in one place must be refused by the schema and, where
the program reads them, by the program, with the field's name. What the program writes must match. Exit status: 0 right,
1 wrong.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import jsonschema

import variants

NAMES = ("cache-operator", "cache-family-input", "production-cache-bench", "usecase-corpus", "agent-corpus")
TIMEOUT_S = 60


class Failure(Exception):
    """Something is not as expected; the text says what."""


def load(path):
    return json.loads(Path(path).read_text(encoding="utf-8"))


class Schemas:
    """The schemas by name, each of them valid."""

    def __init__(self, folder):
        self._validators = {}
        for name in NAMES:
            schema = load(folder / f"{name}.schema.json")
            jsonschema.Draft7Validator.check_schema(schema)
            if not schema.get("title") or not schema.get("description"):
                raise Failure(f"{name}: the schema has no title or no description")
            self._validators[name] = jsonschema.Draft7Validator(schema)
        found = sorted(path.name for path in folder.glob("*.schema.json"))
        if found != sorted(f"{name}.schema.json" for name in NAMES):
            raise Failure(f"{folder} has {found}; this test knows {NAMES}")

    def matches(self, name, document):
        return self._validators[name].is_valid(document)

    def accept(self, name, document, what):
        for error in self._validators[name].iter_errors(document):
            place = "/".join(str(step) for step in error.absolute_path)
            raise Failure(f"{what} does not match {name} at '{place}': {error.message[:300]}")

    def refuse_all(self, name, document, changes):
        """Each change alone makes the document wrong."""
        for path, value, _ in changes:
            if self.matches(name, variants.changed(document, path, value)):
                raise Failure(f"{name} accepts {describe(path, value)}")


def describe(path, value):
    new = "no value" if value is variants.REMOVED else json.dumps(value)[:80]
    return f"{new} at {'/'.join(str(step) for step in path)}"


class Workshop:
    """A folder with everything that a request names, but no model: their cells are rows without a run."""

    def __init__(self, skippy, evals, folder):
        self.skippy = skippy
        self.folder = folder
        for name in ("models", "build"):
            (folder / name).mkdir()
        (folder / "build" / "libllama.so").write_text("code")
        program = folder / "program"
        program.write_text("#!/bin/sh\nexit 1\n")
        program.chmod(0o755)
        self.request = load(evals / "cache-operator.example.json")
        for field in ("correctness", "stage_server", "native_server", "artifact_tool"):
            self.request[field] = str(program)
        self.request["native_build"] = str(folder / "build")
        plan = self.request["plan"]
        plan["cache_root"] = str(folder / "models")
        for field, name in (("corpus", "usecase"), ("agent_corpus", "agent")):
            path = evals / f"skippy-{name}-corpus.json"
            plan[field] = {"path": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        self._n = 0

    def write(self, document):
        self._n += 1
        path = self.folder / f"document-{self._n}.json"
        path.write_text(json.dumps(document))
        return path

    def run(self, command, document):
        """Runs a step of the benchmark on a document; returns exit status, complaint and output folder."""
        path = self.write(document)
        output = path.with_suffix("")
        done = subprocess.run(
            [self.skippy, "bench", command, "--input", str(path), "--output", str(output)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_S,
            check=False,
        )
        return done.returncode, done.stdout.decode(errors="replace"), output

    def refuses(self, command, document, words, what):
        code, said, output = self.run(command, document)
        if code <= 0 or words not in said:
            raise Failure(f"'{command}' took {what}: exit status {code}, expected '{words}' in: {said}")
        if (output / "cache-family-input.json").exists():
            raise Failure(f"'{command}' refused {what} and wrote an input all the same")

    def prepare(self, command, document, what):
        code, said, output = self.run(command, document)
        if code != 0:
            raise Failure(f"'{command}' refused {what}: {said}")
        return load(output / "cache-family-input.json")


def committed_files_match(schemas, evals):
    schemas.accept("cache-operator", load(evals / "cache-operator.example.json"), "the example request")
    schemas.accept("usecase-corpus", load(evals / "skippy-usecase-corpus.json"), "the use-case corpus")
    schemas.accept("agent-corpus", load(evals / "skippy-agent-corpus.json"), "the agent corpus")
    for path in sorted(evals.glob("results/**/production-cache-bench.json")):
        schemas.accept("production-cache-bench", load(path), str(path))


def wrong_corpora_are_refused(schemas, evals):
    schemas.refuse_all("usecase-corpus", load(evals / "skippy-usecase-corpus.json"), variants.BROKEN_CORPORA)
    schemas.refuse_all("agent-corpus", load(evals / "skippy-agent-corpus.json"), variants.BROKEN_CONVERSATIONS)


def schema_and_program_agree_about_requests(schemas, shop):
    schemas.refuse_all("cache-operator", shop.request, variants.BROKEN_REQUESTS)
    for path, value, words in variants.BROKEN_REQUESTS:
        shop.refuses("prepare-full", variants.changed(shop.request, path, value), words, describe(path, value))
    for path, value, _ in variants.RIGHT_REQUESTS:
        document = variants.changed(shop.request, path, value)
        schemas.accept("cache-operator", document, describe(path, value))
        shop.prepare("prepare-full", document, describe(path, value))


def prepared_inputs_match(schemas, shop):
    for command, kind in (("prepare-full", "full"), ("prepare-use-cases", "use-cases")):
        prepared = shop.prepare(command, shop.request, "the example request")
        schemas.accept("cache-family-input", prepared, f"the input of '{command}'")
        if prepared["kind"] != kind or len(prepared["cells"]) < 14:
            raise Failure(f"'{command}' made a '{prepared['kind']}' input of {len(prepared['cells'])} cells")


def schema_and_program_agree_about_inputs(schemas, shop):
    prepared = shop.prepare("prepare-full", shop.request, "the example request")
    schemas.refuse_all("cache-family-input", prepared, variants.BROKEN_INPUTS)
    for path, value, words in variants.BROKEN_INPUTS:
        shop.refuses("run", variants.changed(prepared, path, value), words, describe(path, value))


def written_rows_match(schemas, shop):
    """Without a model every cell is a row without a run, so a run takes no time and shows the rows' fields."""
    request = variants.changed(shop.request, ("plan", "use_cases"), ["open_chat"])
    for command in ("prepare-full", "prepare-use-cases"):
        prepared = shop.prepare(command, request, "the example request")
        _, said, output = shop.run("run", prepared)
        if not (output / "production-cache-bench.json").exists():
            raise Failure(f"'run' wrote no rows: {said}")
        rows = load(output / "production-cache-bench.json")
        schemas.accept("production-cache-bench", rows, "what 'run' wrote")
        if [row["skippy"]["status"] for row in rows] != ["missing-model"] * len(prepared["cells"]):
            raise Failure(f"expected a row without a model for each cell: {[row['skippy'] for row in rows]}")
    schemas.refuse_all("production-cache-bench", rows, variants.BROKEN_ROWS)
    measured = variants.changed(rows, (0, "parts"), {"exact": variants.PART})
    schemas.accept("production-cache-bench", measured, "a row with a part")
    for path, value, words in variants.BROKEN_PARTS:
        schemas.refuse_all("production-cache-bench", measured, [((0, "parts", "exact") + path, value, words)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skippy", required=True, help="the program")
    parser.add_argument("--evals", required=True, help="the folder evals of the repository")
    arguments = parser.parse_args()
    evals = Path(arguments.evals).resolve()
    try:
        schemas = Schemas(evals / "schemas")
        committed_files_match(schemas, evals)
        wrong_corpora_are_refused(schemas, evals)
        with tempfile.TemporaryDirectory(prefix="skippy-schemas-") as folder:
            shop = Workshop(os.path.abspath(arguments.skippy), evals, Path(folder).resolve())
            for check in (
                schema_and_program_agree_about_requests,
                prepared_inputs_match,
                schema_and_program_agree_about_inputs,
                written_rows_match,
            ):
                check(schemas, shop)
                print(f"{check.__name__}: right", flush=True)
    except Failure as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
