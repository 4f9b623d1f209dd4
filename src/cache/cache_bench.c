/* Microbenchmarks of libskippy-cache: identity, index, payloads and RAM store. See --help. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cache/cache_bench.h"
#include "skippy/skippy.h"

static const char usage[] =
    "usage: skippy-cache-bench [options]\n"
    "Times the inner functions of libskippy-cache and prints median and 95th percentile in microseconds.\n"
    "\n"
    "  --entries N      stored prompts in the index (default 10000)\n"
    "  --tokens N       length of a prompt in tokens (default 8192)\n"
    "  --shared N       tokens that the prompts share in the shape 'shared' (default 2000)\n"
    "  --repetitions N  measured calls per row, at least 20 (default 200)\n"
    "  --store-mib N    bytes that each rate of the RAM store moves, in MiB (default 256)\n"
    "  --store          only payloads and the RAM store\n"
    "  --json           one JSON object instead of the table\n"
    "  --help           this text\n"
    "\n"
    "Rows: identity (keys of all lookup candidates of one prompt, min 256, stride 128); then, for each shape of the\n"
    "index, match_hit (a stored prompt), match_extended (a stored prompt and 16 new tokens), match_diverging (half of a\n"
    "stored prompt, then new tokens), match_miss (nothing in common), insert and evict (remove by id). Shapes: shared\n"
    "(all prompts begin with the same tokens, then differ), distinct (all differ from the first token on), growing\n"
    "(chats that grow turn by turn: each stored prompt is a beginning of the next).\n"
    "allocations: calls of the allocator during all measured calls of the row; 0 on every match row.\n"
    "ram: put_evict (a put into a full RAM store of --entries entries that evicts one of them).\n"
    "Rates, for several block sizes: cut (digests of fresh bytes), put (copy and verify), cut_and_put (what storing fresh\n"
    "bytes costs), put_full (put while as much is evicted), read (copy and verify). saved: share of bytes that need not be\n"
    "stored, for a chat of 20 turns and for 16 agents with 2,000 tokens in common and 50 of their own, when the state is\n"
    "cut by window of 256 tokens, layer, K or V (and every 64 tokens inside a window), or every MiB.\n"
    "The index needs about entries x tokens x 4 bytes: 330 MB with the defaults.\n";

/* ---- allocator that counts ---- */

static size_t allocations;

static void *counting_alloc(void *ud, size_t size) {
    (void)ud;
    allocations++;
    return malloc(size);
}

static void counting_release(void *ud, void *block) {
    (void)ud;
    free(block);
}

const skippy_allocator bench_allocator = {counting_alloc, counting_release, NULL};

void *bench_must(void *block) {
    if (block) return block;
    fprintf(stderr, "skippy-cache-bench: out of memory\n");
    exit(1);
}

void bench_check(int status, const char *what) {
    if (status == SKIPPY_OK) return;
    fprintf(stderr, "skippy-cache-bench: %s: %s\n", what, skippy_strerror(status));
    exit(1);
}

/* ---- measured rows ---- */

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void bench_measure(bench_report *r, const bench_options *o, const char *shape, const char *name, bench_fn fn,
                   void *ud) {
    uint64_t *ns = bench_must(calloc(o->repetitions, sizeof *ns));
    size_t before = allocations;
    for (size_t i = 0; i < o->repetitions; i++) {
        uint64_t start = sk_now_ns();
        fn(ud, i);
        ns[i] = sk_now_ns() - start;
    }
    qsort(ns, o->repetitions, sizeof *ns, by_value);
    size_t middle = o->repetitions / 2, late = (o->repetitions * 95 + 99) / 100 - 1;
    r->rows[r->n++] = (bench_row){shape, name, (double)ns[middle] / 1e3, (double)ns[late] / 1e3, allocations - before};
    free(ns);
}

void bench_rate_add(bench_report *r, const char *name, const char *detail, double value, const char *unit) {
    r->rates[r->n_rates++] = (bench_rate){name, detail, unit, value};
}

/* ---- prompts ---- */

enum shape { SHARED, DISTINCT, GROWING, SHAPES };
static const char *const shape_name[SHAPES] = {"shared", "distinct", "growing"};
enum { TURNS = 16 }; /* stored prompts of one growing chat */

static int32_t token_at(uint64_t stream, size_t i) {
    uint64_t x = (stream << 32 ^ i) * 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return (int32_t)(x >> 40) % 150000;
}

/* Writes the k-th prompt of the shape and returns its length. */
static size_t make_prompt(const bench_options *o, enum shape shape, size_t k, int32_t *out) {
    size_t n = shape == GROWING ? o->tokens * (k % TURNS + 1) / TURNS : o->tokens;
    size_t shared = shape == SHARED ? o->shared : 0;
    uint64_t stream = shape == GROWING ? k / TURNS + 1 : k + 1;
    if (n == 0) n = 1;
    for (size_t i = 0; i < n; i++) out[i] = token_at(i < shared ? 0 : stream, i);
    return n;
}

/* ---- identity ---- */

typedef struct identity_bench {
    skippy_identity id;
    int32_t *tokens;
    size_t n, n_lengths;
    size_t *lengths;
    skippy_key *keys;
} identity_bench;

static void identity_call(void *ud, size_t i) {
    identity_bench *b = ud;
    skippy_key ns;
    (void)i;
    bench_check(skippy_namespace_key(&b->id, &ns), "namespace key");
    bench_check(skippy_prefix_keys(&ns, b->tokens, b->n, b->lengths, b->n_lengths, b->keys), "prefix keys");
}

static void bench_identity(bench_report *r, const bench_options *o) {
    const skippy_policy policy = {.min_tokens = 256, .stride_tokens = 128};
    identity_bench b = {.id = {.model_id = "bench", .runtime_abi = "bench-1", .kv_type_k = "f16", .kv_type_v = "f16"}};
    b.tokens = bench_must(calloc(o->tokens, sizeof *b.tokens));
    b.n = make_prompt(o, DISTINCT, 0, b.tokens);
    (void)skippy_policy_lookup(&policy, b.n, NULL, 0, &b.n_lengths); /* the size only */
    b.lengths = bench_must(calloc(b.n_lengths, sizeof *b.lengths));
    b.keys = bench_must(calloc(b.n_lengths, sizeof *b.keys));
    bench_check(skippy_policy_lookup(&policy, b.n, b.lengths, b.n_lengths, &b.n_lengths), "lookup lengths");
    for (size_t i = 0; i < b.n_lengths / 2; i++) { /* the keys want them ascending */
        size_t swap = b.lengths[i];
        b.lengths[i] = b.lengths[b.n_lengths - 1 - i];
        b.lengths[b.n_lengths - 1 - i] = swap;
    }
    bench_measure(r, o, "-", "identity", identity_call, &b);
    free(b.tokens);
    free(b.lengths);
    free(b.keys);
}

/* ---- index ---- */

typedef struct index_bench {
    const bench_options *o;
    enum shape shape;
    skippy_index *ix;
    skippy_key ns;
    int32_t *prompts; /* one per repetition, prompt_cap tokens apart */
    size_t *length;
    size_t prompt_cap;
    size_t used; /* keeps results alive */
} index_bench;

static const int32_t *prompt(const index_bench *b, size_t i) {
    return b->prompts + i * b->prompt_cap;
}

static void match_call(void *ud, size_t i) {
    index_bench *b = ud;
    skippy_match m;
    bench_check(skippy_index_match(b->ix, &b->ns, prompt(b, i), b->length[i], b->length[i], &m), "match");
    b->used += m.common;
}

static void insert_id(index_bench *b, const int32_t *tokens, size_t n, uint64_t id) {
    const skippy_residency r = {.id = id, .kind = SKIPPY_KIND_STATE, .reach = SKIPPY_REACH_RANGE};
    bench_check(skippy_index_insert(b->ix, &b->ns, tokens, n, &r), "insert");
}

static void insert_call(void *ud, size_t i) {
    index_bench *b = ud;
    insert_id(b, prompt(b, i), b->length[i], b->o->entries + 1 + i);
}

static void evict_call(void *ud, size_t i) {
    index_bench *b = ud;
    bench_check(skippy_index_remove(b->ix, b->o->entries + 1 + i), "remove");
}

/* Stored prompts in scattered order, so that no row finds its data in the CPU's caches because of the row before. */
static void load_stored(index_bench *b) {
    for (size_t i = 0; i < b->o->repetitions; i++)
        b->length[i] = make_prompt(b->o, b->shape, (i * 7919 + 13) % b->o->entries, b->prompts + i * b->prompt_cap);
}

static void load_new(index_bench *b) {
    for (size_t i = 0; i < b->o->repetitions; i++)
        b->length[i] =
            make_prompt(b->o, b->shape, (b->o->entries + i) * TURNS + TURNS - 1, b->prompts + i * b->prompt_cap);
}

static void overwrite_from(index_bench *b, size_t i, size_t from, size_t to) {
    for (size_t k = from; k < to; k++) b->prompts[i * b->prompt_cap + k] = -1 - (int32_t)(k % 1000);
}

static void bench_matches(bench_report *r, index_bench *b) {
    const char *shape = shape_name[b->shape];
    size_t n = b->o->repetitions;
    load_stored(b);
    bench_measure(r, b->o, shape, "match_hit", match_call, b);
    for (size_t i = 0; i < n; i++) {
        overwrite_from(b, i, b->length[i], b->length[i] + 16);
        b->length[i] += 16;
    }
    bench_measure(r, b->o, shape, "match_extended", match_call, b);
    for (size_t i = 0; i < n; i++) overwrite_from(b, i, b->length[i] / 2, b->length[i]);
    bench_measure(r, b->o, shape, "match_diverging", match_call, b);
    for (size_t i = 0; i < n; i++) overwrite_from(b, i, 0, b->length[i]);
    bench_measure(r, b->o, shape, "match_miss", match_call, b);
}

static void bench_index(bench_report *r, const bench_options *o, enum shape shape) {
    index_bench b = {.o = o, .shape = shape, .ns = {{1}}, .prompt_cap = o->tokens + 16};
    bench_check(skippy_index_create(&bench_allocator, &b.ix), "create");
    b.prompts = bench_must(calloc(o->repetitions, b.prompt_cap * sizeof *b.prompts));
    b.length = bench_must(calloc(o->repetitions, sizeof *b.length));
    for (size_t k = 0; k < o->entries; k++) {
        size_t n = make_prompt(o, shape, k, b.prompts);
        insert_id(&b, b.prompts, n, k + 1);
    }
    bench_matches(r, &b);
    load_new(&b);
    bench_measure(r, o, shape_name[shape], "insert", insert_call, &b);
    bench_measure(r, o, shape_name[shape], "evict", evict_call, &b);
    skippy_index_destroy(b.ix);
    free(b.prompts);
    free(b.length);
}

/* ---- output and arguments ---- */

static void print_table(const bench_report *r, const bench_options *o) {
    printf("%zu entries, %zu tokens, %zu shared, %zu repetitions; microseconds\n", o->entries, o->tokens, o->shared,
           o->repetitions);
    printf("%-10s %-16s %12s %12s %12s\n", "shape", "row", "median", "p95", "allocations");
    for (size_t i = 0; i < r->n; i++) {
        const bench_row *w = &r->rows[i];
        printf("%-10s %-16s %12.2f %12.2f %12zu\n", w->shape, w->name, w->median_us, w->p95_us, w->allocations);
    }
    printf("%-16s %-40s %12s\n", "rate", "of", "value");
    for (size_t i = 0; i < r->n_rates; i++)
        printf("%-16s %-40s %12.2f %s\n", r->rates[i].name, r->rates[i].detail, r->rates[i].value, r->rates[i].unit);
}

static void print_json(const bench_report *r, const bench_options *o) {
    printf("{\"entries\":%zu,\"tokens\":%zu,\"shared\":%zu,\"repetitions\":%zu,\"rows\":[", o->entries, o->tokens,
           o->shared, o->repetitions);
    for (size_t i = 0; i < r->n; i++) {
        const bench_row *w = &r->rows[i];
        printf("%s\n{\"shape\":\"%s\",\"row\":\"%s\",\"median_us\":%.3f,\"p95_us\":%.3f,\"allocations\":%zu}",
               i ? "," : "", w->shape, w->name, w->median_us, w->p95_us, w->allocations);
    }
    printf("\n],\"rates\":[");
    for (size_t i = 0; i < r->n_rates; i++)
        printf("%s\n{\"rate\":\"%s\",\"of\":\"%s\",\"value\":%.3f,\"unit\":\"%s\"}", i ? "," : "", r->rates[i].name,
               r->rates[i].detail, r->rates[i].value, r->rates[i].unit);
    printf("\n]}\n");
}

static bool parse_size(const char *text, size_t min, size_t max, size_t *out) {
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || v < min || v > max) return false;
    *out = (size_t)v;
    return true;
}

/* 0: go on, 1: help was printed, 2: wrong usage. */
static int parse(int argc, char **argv, bench_options *o) {
    const struct {
        const char *name;
        size_t *value, min, max;
    } sizes[] = {{"--entries", &o->entries, 1, 1000000},
                 {"--tokens", &o->tokens, TURNS, 1000000},
                 {"--shared", &o->shared, 0, 1000000},
                 {"--repetitions", &o->repetitions, 20, 100000},
                 {"--store-mib", &o->store_mib, 16, 65536}};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            fputs(usage, stdout);
            return 1;
        }
        if (strcmp(argv[i], "--json") == 0) {
            o->json = true;
            continue;
        }
        if (strcmp(argv[i], "--store") == 0) {
            o->store_only = true;
            continue;
        }
        size_t k = 0;
        while (k < sizeof sizes / sizeof *sizes && strcmp(argv[i], sizes[k].name) != 0) k++;
        if (k == sizeof sizes / sizeof *sizes) {
            fprintf(stderr, "skippy-cache-bench: unknown option '%s'\n%s", argv[i], usage);
            return 2;
        }
        if (i + 1 == argc || !parse_size(argv[++i], sizes[k].min, sizes[k].max, sizes[k].value)) {
            fprintf(stderr, "skippy-cache-bench: %s needs a whole number from %zu to %zu\n", sizes[k].name,
                    sizes[k].min, sizes[k].max);
            return 2;
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    bench_options o = {.entries = 10000, .tokens = 8192, .shared = 2000, .repetitions = 200, .store_mib = 256};
    static bench_report r;
    int parsed = parse(argc, argv, &o);
    if (parsed) return parsed == 1 ? 0 : 2;
    if (o.shared >= o.tokens) o.shared = o.tokens - 1; /* the prompts must differ somewhere */
    if (!o.store_only) {
        bench_identity(&r, &o);
        for (int shape = 0; shape < SHAPES; shape++) bench_index(&r, &o, (enum shape)shape);
    }
    bench_store(&r, &o);
    if (o.json)
        print_json(&r, &o);
    else
        print_table(&r, &o);
    return 0;
}
