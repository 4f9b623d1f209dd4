/* Embeds libskippy-cache in an imaginary engine: a first request is computed and recorded, a second one that begins
 * alike takes over what the first one left.
 *
 *   cc embed.c $(pkg-config --cflags --libs skippy-cache) -o embed
 *
 * The engine's part (copying, dropping and extending sequences) is shown as comments. */
#include <inttypes.h>
#include <stdio.h>

#include <skippy/skippy.h>

typedef struct cache {
    skippy_index *index;       /* which stored state covers a prompt */
    skippy_resident *resident; /* which sequences hold it, and what to evict */
    skippy_key ns;             /* everything but the tokens */
} cache;

static int cache_open(cache *c) {
    /* A real engine takes weights_digest from skippy_file_digest; the fields left out here stay absent or zero. */
    const skippy_identity id = {
        .weights_digest = {{0x42}},
        .model_id = "example",
        .layer_end = 24,
        .runtime_abi = "example-engine-1",
        .kv_type_k = "f16",
        .kv_type_v = "f16",
        .n_ctx = 4096,
        .backend_device = "CPU",
    };
    /* Sequences 0..3 belong to requests in flight, 4..19 to the cache. */
    const skippy_resident_limits limits = {.max_entries = 16, .max_cells = 2048, .first_seq_id = 4, .n_seq_ids = 16};
    int status = skippy_namespace_key(&id, &c->ns);
    if (status == SKIPPY_OK) status = skippy_index_create(NULL, &c->index);
    if (status == SKIPPY_OK) status = skippy_resident_create(NULL, &limits, &c->resident);
    return status;
}

static void cache_close(cache *c) {
    skippy_index_destroy(c->index);
    skippy_resident_destroy(c->resident);
}

/* Remembers the state of a prompt that was just computed. */
static int cache_record(cache *c, const int32_t *tokens, size_t n) {
    uint64_t victims[16], id;
    size_t n_victims;
    int32_t seq;
    enum skippy_evict_reason reason;
    int status = skippy_resident_reserve(c->resident, n, n, 0, (double)n, victims, 16, &n_victims, &reason, &id, &seq);
    if (status != SKIPPY_OK) return status;
    for (size_t i = 0; i < n_victims && status == SKIPPY_OK; i++) {
        /* The index forgets first, then the engine drops the sequence, then its number is free. */
        status = skippy_index_remove(c->index, victims[i]);
        if (status == SKIPPY_OK) status = skippy_resident_drop(c->resident, victims[i], reason);
    }
    /* The engine copies the request's sequence to `seq` here; when that fails, the reservation is aborted, too. */
    const skippy_residency state = {
        .id = id, .kind = SKIPPY_KIND_STATE, .tier = SKIPPY_TIER_RESIDENT, .reach = SKIPPY_REACH_RANGE};
    if (status == SKIPPY_OK) status = skippy_index_insert(c->index, &c->ns, tokens, n, &state);
    if (status == SKIPPY_OK) return skippy_resident_commit(c->resident, id);
    (void)skippy_resident_abort(c->resident, id);
    return status;
}

/* Answers one request and says where its beginning came from. */
static int cache_serve(cache *c, const char *name, const int32_t *tokens, size_t n) {
    skippy_match match;
    /* One token is always computed: its logits choose the next one. */
    int status = skippy_index_match(c->index, &c->ns, tokens, n, n - 1, &match);
    if (status != SKIPPY_OK) return status;
    uint64_t id = match.state[SKIPPY_TIER_RESIDENT].id;
    if (id == 0) {
        /* The engine computes all n tokens here. */
        status = cache_record(c, tokens, n);
        if (status == SKIPPY_OK) printf("%s: miss, recorded %zu tokens\n", name, n);
        return status;
    }
    status = skippy_resident_lease(c->resident, id); /* nothing evicts it while it is copied */
    if (status != SKIPPY_OK) return status;
    skippy_resident_entry entry;
    status = skippy_resident_get(c->resident, id, &entry);
    if (status == SKIPPY_OK) {
        /* The engine copies `length` positions of entry.seq_id here and computes the rest. */
        size_t length = match.state[SKIPPY_TIER_RESIDENT].length;
        printf("%s: hit, %zu of %zu tokens from sequence %" PRId32 "\n", name, length, n, entry.seq_id);
    }
    int released = skippy_resident_release(c->resident, id);
    return status == SKIPPY_OK ? released : status;
}

int main(void) {
    const int32_t first[] = {1, 306, 4658, 278, 6593, 310};
    const int32_t second[] = {1, 306, 4658, 278, 6593, 29871, 13};
    cache c = {0};
    int status = cache_open(&c);
    if (status == SKIPPY_OK) status = cache_serve(&c, "first request", first, sizeof first / sizeof *first);
    if (status == SKIPPY_OK) status = cache_serve(&c, "second request", second, sizeof second / sizeof *second);
    if (status != SKIPPY_OK) fprintf(stderr, "embed: %s\n", skippy_strerror(status));
    cache_close(&c);
    return status == SKIPPY_OK ? 0 : 1;
}
