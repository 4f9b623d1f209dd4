"""End-to-end tests of the tiers: python3 tests/e2e/tiers --skippy PROGRAM --models FOLDER SCENARIO...

Each scenario drives real servers on tiny generated models and looks at them from outside: answers, headers, /metrics,
files, /proc. Environment: SKIPPY_E2E_SEED (printed; default: random), SKIPPY_E2E_LONG=1 (more models),
SKIPPY_E2E_KILLS (kill -9 cycles, default 15). Exit status: 0 right, 1 wrong, 77 skipped.
"""

import argparse
import importlib
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

from report import Failure, Skip, end_with, say

SCENARIOS = ("selftest", "restart", "flags", "kills", "damage", "memory", "sharing", "limit", "shadow")
EXIT_SKIPPED = 77


class Environment:
    """What every scenario needs: the program, the models, a folder that is removed at the end, the seed."""

    def __init__(self, skippy, models, folder):
        self.skippy = skippy
        self.folder = Path(folder)
        self.seed = os.environ.get("SKIPPY_E2E_SEED") or str(random.SystemRandom().randrange(10**9))
        self.long = os.environ.get("SKIPPY_E2E_LONG", "0") not in ("", "0")
        self.kills = int(os.environ.get("SKIPPY_E2E_KILLS") or 15)
        self.conversations = 20
        # The digest of the weights is remembered below; a test must not depend on what other runs left there.
        self.variables = dict(os.environ, XDG_CACHE_HOME=str(self.folder / "digests"))
        self._models = Path(models)
        self._n_paths = 0
        (self.folder / "digests").mkdir()

    def model(self, name):
        path = self._models / f"{name}.gguf"
        if not path.exists():
            raise Skip(f"the test model {path} is not there")
        return path

    def new_path(self, name):
        """A path that nothing has used."""
        self._n_paths += 1
        return self.folder / f"{self._n_paths}-{name}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skippy", required=True, help="the program")
    parser.add_argument("--models", required=True, help="folder of the generated test models")
    parser.add_argument("scenario", nargs="+", choices=SCENARIOS)
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="skippy-tiers-")
    try:
        env = Environment(os.path.abspath(arguments.skippy), arguments.models, folder)
        for name in arguments.scenario:
            say(f"{name}, SKIPPY_E2E_SEED={env.seed}")
            importlib.import_module(name).run(env)
            say(f"{name}: all as expected")
    except Skip as reason:
        print(f"skipped: {reason}")
        sys.exit(EXIT_SKIPPED)
    except Failure as failure:
        end_with(f"SKIPPY_E2E_SEED={env.seed}: {failure}")
    finally:
        if os.environ.get("SKIPPY_E2E_KEEP"):
            say(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
