/* The schedule: several servers do the rounds of one part in turns, so that a slow minute of the machine hits all of
 * them.
 *
 * Servers that fit into memory together stay up together; a round is done by each of them, another one first each time.
 * Where memory does not allow that, one server after the other does all of its rounds; the record says which it was.
 * After the part the answers are compared (bench/measurement.h), and where they differ, llama-server is asked whether
 * it was a near tie (bench/tie.h); where servers run one after another it is started once more for that. Servers with
 * different numbers of rounds are compared by the rounds that all of them do: digests and counts of prompts are of
 * these. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_TURNS_H
#define SKIPPY_BENCH_FAMILY_TURNS_H

#include "bench/family/part.h"

typedef struct sk_turns {
    sk_family_host *hosts;
    size_t n_hosts; /* 1..SK_FAMILY_MAX_HOSTS; the last one is ours */
    bool together;  /* all run at the same time; false: each is started for its rounds and stopped again */
    const sk_part_task *task;
    uint64_t deadline_ns; /* sk_now_ns(); the part is stopped between rounds when it has passed; 0 = none */
    /* One line after each round. May be NULL. */
    void (*progress)(void *ud, const char *part, const char *host, size_t round, size_t rounds);
    void *progress_ud;
} sk_turns;

typedef struct sk_part_result {
    const sk_part *part;
    sk_measurement *m; /* one for each host, owned */
    sk_gate *gate;     /* of each host against ours, owned; the last one is unused */
    json_t **extra;    /* one object for each host, owned */
    size_t n_hosts;
    int rc;     /* SKIPPY_OK: every host did every round. SKIPPY_E_TIMEOUT: deadline. SKIPPY_E_CANCELLED: signal. */
    sk_err err; /* the first failure; a failing host does not stop the others */
} sk_part_result;

/* Runs a part. What was measured before a failure is in *out in every case; sk_part_result_free. Returns out->rc. With
 * `together` the hosts must run already. */
int sk_turns_run(const sk_turns *t, const sk_part *part, sk_part_result *out);
void sk_part_result_free(sk_part_result *r);

/* {"status":"ok"|"failed"|"timeout"|"cancelled","error":"...","schedule":"in turns"|"one after another",
 *  "series":{NAME:{HOST:{"ms":[..],"cache_n":[..],"prompt_n":[..]}}},
 *  "gate":{HOST:{"comparable":bool,"same_prompts":bool,"cold":n,"cold_equal":n,"cold_ties":n,"answers":n,
 *  "first_equal":n}}, "extra":{HOST:{...}},"prompts":n,"prompts_blake3":"..."}: a new reference, NULL when out of
 * memory. */
json_t *sk_part_result_json(const sk_part_result *r, const sk_turns *t);

#endif
