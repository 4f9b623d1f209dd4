"""Documents that are right or wrong in one place: a path of keys, the new value (REMOVED: the field goes), and words
that the program's complaint has."""

REMOVED = object()
SHA = "0" * 64
PIN = {"path": "/opt/file", "sha256": SHA}


def changed(document, path, value):
    """A copy of the document with another value at the path."""
    if not path:
        return value
    copy = list(document) if isinstance(document, list) else dict(document)
    if len(path) > 1:
        copy[path[0]] = changed(copy[path[0]], path[1:], value)
    elif value is REMOVED:
        del copy[path[0]]
    else:
        copy[path[0]] = value
    return copy


def _plan(field, value, words):
    return (("plan", field), value, words)


def _root(field, value, words):
    return ((field,), value, words)


BROKEN_REQUESTS = [
    _root("surprise", 1, "surprise"),
    _root("schema_version", 2, "schema_version"),
    _root("schema_version", REMOVED, "schema_version"),
    _root("plan", REMOVED, "plan"),
    _root("correctness", REMOVED, "correctness"),
    _root("stage_server", "bin/skippy", "stage_server"),
    _root("native_build", REMOVED, "native_build"),
    _root("old_source_commit", "HEAD", "old_source_commit"),
    _root("old_source_commit", "A" * 40, "old_source_commit"),
    _root("execution_seconds", 3, "execution_seconds"),
    _root("execution_seconds", 86401, "execution_seconds"),
    _root("cell_seconds", 0, "cell_seconds"),
    _root("cell_seconds", 3601, "cell_seconds"),
    _root("preparation_seconds", 29, "preparation_seconds"),
    _root("preparation_seconds", 3601, "preparation_seconds"),
    _root("request_timeout_ms", 10, "request_timeout_ms"),
    _root("borrow_resident_hits", "yes", "borrow_resident_hits"),
    _root("environment", {"HF_TOKEN": "x"}, "HF_TOKEN"),
    _root("environment", {"GGML_API_KEY": "x"}, "GGML_API_KEY"),
    _root("environment", {"PATH": "/bin"}, "PATH"),
    _root("environment", {"OMP_NUM_THREADS": 4}, "OMP_NUM_THREADS"),
    _root("environment", {f"GGML_X{i}": "1" for i in range(65)}, "64"),
    _root("toolkit_directories", {"A b": PIN}, "toolkit_directories"),
    _root("toolkit_directories", {"cuda": "/opt/cuda"}, "toolkit_directories.cuda"),
    _root("toolkit_directories", {f"t{i}": PIN for i in range(17)}, "toolkit_directories"),
    _plan("surprise", 1, "surprise"),
    _plan("schema_version", 2, "plan.schema_version"),
    _plan("cache_root", REMOVED, "plan.cache_root"),
    _plan("cache_root", "models", "plan.cache_root"),
    _plan("cases", ["gpt"], "plan.cases[0]"),
    _plan("cases", ["llama", "llama"], "plan.cases[1]"),
    _plan("cases", "llama", "plan.cases"),
    _plan("use_cases", [], "plan.corpus"),
    _plan("use_cases", ["all", "open_chat"], "plan.use_cases"),
    _plan("use_cases", ["Chat"], "plan.use_cases[0]"),
    _plan("corpus", REMOVED, "plan.corpus"),
    _plan("corpus", {"path": "/opt/corpus.json"}, "plan.corpus.sha256"),
    _plan("corpus", {"path": "/opt/corpus.json", "sha256": SHA, "bytes": 1}, "plan.corpus"),
    _plan("agent_corpus", {"path": "agent.json", "sha256": SHA}, "plan.agent_corpus.path"),
    _plan("prefix_tokens", 0, "plan.prefix_tokens"),
    _plan("prefix_sweep", list(range(1, 34)), "plan.prefix_sweep"),
    _plan("prefix_sweep", [16, 16], "plan.prefix_sweep[1]"),
    _plan("cache_hit_repeats", 0, "plan.cache_hit_repeats"),
    _plan("cache_hit_repeats", 1025, "plan.cache_hit_repeats"),
    _plan("llama_repeats", 2.5, "plan.llama_repeats"),
    _plan("n_gpu_layers", -2, "plan.n_gpu_layers"),
    _plan("concurrency", [0], "plan.concurrency[0]"),
    _plan("concurrency", [1, 1025], "plan.concurrency[1]"),
    _plan("concurrency", [8, 8], "plan.concurrency[1]"),
    _plan("concurrency", list(range(1, 34)), "plan.concurrency"),
    _plan("concurrent_requests", 65537, "plan.concurrent_requests"),
    _plan("seed", -1, "plan.seed"),
    _plan("skip_llama_server", 0, "plan.skip_llama_server"),
    _plan("old_server", PIN, "plan.new_server"),
    _plan("new_server", PIN, "plan.old_server"),
    _plan("model_sha256", {"gpt": SHA}, "plan.model_sha256"),
    _plan("model_sha256", {"llama": "abc"}, "plan.model_sha256.llama"),
    _plan("request_timeout_ms", 5000, "request_timeout_ms"),
]

# The program looks at more than a schema can say, so these are read as far as the first file that is not there.
RIGHT_REQUESTS = [
    _plan("cases", ["deepseek3", "llama"], None),
    _plan("cases", None, None),
    _plan("concurrency", [], None),
    _plan("prefix_tokens", None, None),
    _plan("n_gpu_layers", -1, None),
    _plan("seed", 2**63 - 1, None),
    _plan("skip_llama_server", True, None),
    _plan("model_sha256", {"llama": None}, None),
    _root("native_server", None, None),
    _root("environment", {"CUDA_VISIBLE_DEVICES": ""}, None),
    _root("execution_seconds", 4, None),
    _root("new_source_commit", "0" * 40, None),
]

BROKEN_INPUTS = [
    _root("surprise", 1, "surprise"),
    _root("schema_version", 2, "schema_version"),
    _root("kind", "half", "kind"),
    _root("catalog_sha256", "x", "catalog_sha256"),
    _root("models", [], "models"),
    _root("cells", [], "cells"),
    _root("environment", {"HF_TOKEN": "x"}, "HF_TOKEN"),
    (("programs", "correctness"), None, "correctness"),
    (("programs", "stage_server", "bytes"), -1, "programs.stage_server.bytes"),
    (("native_build", "path"), "build", "native_build.path"),
    (("sizes", "runtime_lane_count"), 0, "sizes.runtime_lane_count"),
    (("sizes", "seed"), REMOVED, "sizes.seed"),
    (("models", 0, "status"), "good", "models[0].status"),
    (("models", 0, "status"), "present-unqualified", "models[0]"),
    (("models", 0, "key"), "gpt", "models[0].key"),
    (("cells", 0, "kind"), "use-case", "cells[0].use_case"),
    (("cells", 0, "use_case"), "open_chat", "cells[0].use_case"),
    (("cells", 0, "prefix_tokens"), 0, "cells[0].prefix_tokens"),
    (("cells", 0, "output_relative"), "../elsewhere", "cells[0].output_relative"),
    (("cells", 0, "output_relative"), "a//b", "cells[0].output_relative"),
    (("cells", 0, "model"), 14, "cells[0].model"),
    (("cells", 0, "tasks", "correctness"), REMOVED, "cells[0].tasks.correctness"),
    (("cells", 0, "tasks", "surprise"), True, "surprise"),
]

BROKEN_ROWS = [
    ((0, "key"), "gpt", None),
    ((0, "key"), REMOVED, None),
    ((0, "schema_version"), 2, None),
    ((0, "kind"), "half", None),
    ((0, "payload"), "FullState", None),
    ((0, "synthetic"), 1, None),
    ((0, "prefix_tokens"), 0, None),
    ((0, "skippy", "status"), "good", None),
    ((0, "skippy", "storage_method"), "guessed", None),
    ((0, "llama_server", "status"), "fast", None),
    ((0, "promotion"), True, None),
    ((0, "parts"), {"magic": {}}, None),
    ((0, "parts"), {"exact": {"status": "ok"}}, None),
    ((0, "hosts"), [{"name": "skippy"}], None),
]

# Of a row that was measured: one part.
PART = {
    "status": "ok",
    "error": "",
    "schedule": "in turns",
    "series": {"exact": {"skippy": {"ms": [1.5], "cache_n": [124], "prompt_n": [4]}}},
    "gate": {
        "llama-server": {
            "comparable": True,
            "same_prompts": True,
            "cold": 1,
            "cold_equal": 1,
            "cold_ties": 0,
            "answers": 2,
            "first_equal": 2,
        }
    },
    "extra": {"skippy": {"lengthened": False}},
    "prompts": 1,
    "prompts_blake3": SHA,
}

BROKEN_PARTS = [
    (("status",), "good", None),
    (("schedule",), "at night", None),
    (("series", "exact", "skippy", "ms"), [-1.0], None),
    (("series", "exact", "skippy", "cache_n"), REMOVED, None),
    (("gate", "llama-server", "comparable"), "yes", None),
]

BROKEN_CORPORA = [
    (("version",), 2, None),
    (("surprise",), 1, None),
    (("use_cases",), [], None),
    (("use_cases", 0, "key"), "Open chat", None),
    (("use_cases", 0, "prompt"), "", None),
    (("use_cases", 0, "prompt"), "a\0b", None),
    (("use_cases", 0, "prompt"), "x" * 65537, None),
    (("use_cases", 0, "label"), "two\nlines", None),
    (("use_cases", 0, "prefix_tokens"), 0, None),
    (("use_cases", 0, "surprise"), 1, None),
    (("use_cases", 0, "source"), REMOVED, None),
    (("use_cases", 0, "source", "row_idx"), "first", None),
    (("use_cases", 0, "source", "surprise"), 1, None),
]

BROKEN_CONVERSATIONS = [
    (("version",), 2, None),
    (("conversations",), [], None),
    (("conversations", 0, "key"), "A B", None),
    (("conversations", 0, "surprise"), 1, None),
    (("conversations", 0, "steps"), [], None),
    (("conversations", 0, "steps"), [{"do": "user", "text": "nothing is asked"}], None),
    (("conversations", 0, "steps", 0), {"do": "sing", "text": "x"}, None),
    (("conversations", 0, "steps", 0), {"do": "ask", "max_tokens": 0}, None),
    (("conversations", 0, "steps", 0), {"do": "ask", "max_tokens": 8, "text": "x"}, None),
    (("conversations", 0, "steps", 0), {"do": "ask", "max_tokens": 8, "strip_percent": 101}, None),
    (("conversations", 0, "steps", 0), {"do": "edit", "drop": 0, "text": "x"}, None),
    (("conversations", 0, "steps", 0), {"do": "side", "text": "x"}, None),
]
