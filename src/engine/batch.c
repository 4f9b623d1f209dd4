/* One step of computing: rows of generating lanes and of prompts go through llama_decode together.
 *
 * Attention-only memory: one batch mixes one row of each generating lane with prompt rows of one or more lanes.
 * Recurrent memory: llama.cpp cuts a batch into pieces with equally many rows of every sequence, so a mixed batch would
 * run over the weights twice; generating lanes and prompts take turns instead. Bit mode: every batch keeps the row
 * class (engine->rows): padded with rows of scratch sequences that are dropped afterwards. */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/internal.h"

/* Prompt rows per step while others generate: bounds the pause between two tokens of a stream. */
enum { SHARED_STEP_ROWS = 128, MAX_FAULTS = 2 };

/* ---- composing ---- */

/* Rows of this prompt until the next place to stop: a snapshot boundary or its end. */
static uint32_t rows_to_stop(const sk_lane *l) {
    uint32_t end = (uint32_t)l->job->n_tokens;
    if (l->n_splits && l->splits[0] < end) end = l->splits[0];
    return end - l->n;
}

static void add_row(sk_engine *en, uint32_t seq, int32_t token, bool output) {
    en->batch[en->n_rows++] = (sk_row){.token = token, .seq = seq, .output = output};
}

/* Rows of the head of a chain may have to wait for an answer. */
static bool in_state(const sk_engine *en, const sk_lane *l, enum sk_lane_state state) {
    return l->state == state && sk_split_ready(en, l);
}

/* One row of each generating lane; of some of them, in turn, where stages work at the same time. */
static void add_decode_rows(sk_engine *en) {
    const uint32_t n = en->params.n_lanes, most = sk_split_lanes_per_chunk(en), first = most < n ? en->row_turn : 0;
    for (uint32_t i = 0; i < n && en->n_rows < most; i++) {
        sk_lane *l = &en->lanes[(first + i) % n];
        if (!in_state(en, l, SK_LANE_DECODE)) continue;
        l->out_row = (int32_t)en->n_rows;
        add_row(en, l->id, l->job->tokens[l->n], true);
        en->row_turn = l->id + 1;
    }
}

static void add_prompt_rows(sk_engine *en, sk_lane *l, uint32_t n) {
    bool last = l->n + n == l->job->n_tokens;
    if (last) l->out_row = (int32_t)(en->n_rows + n - 1);
    for (uint32_t k = 0; k < n; k++) add_row(en, l->id, l->job->tokens[l->n + k], last && k == n - 1);
}

/* Lanes in prefill, oldest first: the request that others wait for is finished soonest. */
static uint32_t prefill_lanes(sk_engine *en, sk_lane **out) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < en->params.n_lanes; i++) {
        sk_lane *l = &en->lanes[i];
        if (!in_state(en, l, SK_LANE_PREFILL)) continue;
        uint32_t k = n++;
        for (; k > 0 && out[k - 1]->started > l->started; k--) out[k] = out[k - 1];
        out[k] = l;
    }
    return n;
}

/* Adds prompt rows of as many lanes as fit; of one where a stage computes one sequence at a time. */
static void fill_with_prompts(sk_engine *en, uint32_t budget) {
    sk_lane *order[256];
    uint32_t n = prefill_lanes(en, order);
    if (en->split && sk_context_get_info(en->ctx)->recurrent && n > 1) n = 1;
    for (uint32_t i = 0; i < n && budget > 0; i++) {
        uint32_t k = rows_to_stop(order[i]);
        if (k > budget) k = budget;
        add_prompt_rows(en, order[i], k);
        budget -= k;
    }
}

static bool any_in(const sk_engine *en, enum sk_lane_state state) {
    for (uint32_t i = 0; i < en->params.n_lanes; i++)
        if (in_state(en, &en->lanes[i], state)) return true;
    return false;
}

/* Bit mode with recurrent memory: rows of this prompt that go in pieces of whole multiples; 0 = the next goes row by
 * row. */
static uint32_t piece_rows(const sk_engine *en, const sk_lane *l) {
    uint32_t end = l->n + rows_to_stop(l), m = en->rows.multiple;
    uint32_t whole = (uint32_t)(l->job->n_prompt - l->job->n_prompt % m);
    /* absolute cuts: what lies beyond the last multiple of the prompt is computed as generation would compute it */
    if (en->rows.aligned && end > whole) end = whole;
    return end > l->n ? (end - l->n) - (end - l->n) % m : 0;
}

static bool add_piece(sk_engine *en, uint32_t budget) {
    sk_lane *order[256];
    uint32_t n = prefill_lanes(en, order);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = piece_rows(en, order[i]);
        if (k == 0) continue;
        add_prompt_rows(en, order[i], k < budget ? k : budget);
        return true;
    }
    return false;
}

static void add_single_row(sk_engine *en, sk_lane *l) {
    if (l->state == SK_LANE_PREFILL) {
        add_prompt_rows(en, l, 1);
    } else {
        l->out_row = (int32_t)en->n_rows;
        add_row(en, l->id, l->job->tokens[l->n], true);
    }
}

/* One row of each lane that has one to compute; only of the next lane where memory has no KV cells
 * (sk_row_class_decode). */
static void add_single_rows(sk_engine *en) {
    bool one = !sk_context_get_info(en->ctx)->has_kv;
    for (uint32_t i = 0; i < en->params.n_lanes && !(one && en->n_rows); i++) {
        sk_lane *l = &en->lanes[one ? (en->row_turn + i) % en->params.n_lanes : i];
        bool ready = l->state == SK_LANE_DECODE || (l->state == SK_LANE_PREFILL && piece_rows(en, l) == 0);
        if (!ready) continue;
        add_single_row(en, l);
        if (one) en->row_turn = l->id + 1;
    }
}

static void compose(sk_engine *en, uint32_t budget) {
    en->n_rows = 0;
    for (uint32_t i = 0; i < en->params.n_lanes; i++) en->lanes[i].out_row = -1;
    bool recurrent = sk_context_get_info(en->ctx)->recurrent;
    if (recurrent && sk_engine_bit(en)) {
        if (!(en->prefill_turn & 1u) || !add_piece(en, budget)) add_single_rows(en);
    } else if (recurrent) {
        bool prompts = any_in(en, SK_LANE_PREFILL) && ((en->prefill_turn & 1u) || !any_in(en, SK_LANE_DECODE));
        if (prompts)
            fill_with_prompts(en, budget);
        else
            add_decode_rows(en);
    } else {
        add_decode_rows(en);
        if (budget > en->n_rows) fill_with_prompts(en, budget - en->n_rows);
    }
}

static uint32_t row_budget(const sk_engine *en) {
    uint32_t max = en->params.n_batch;
    if (sk_engine_bit(en)) return en->rows.max_rows - en->rows.max_rows % en->rows.multiple;
    if (en->split) max = sk_split_rows_per_chunk(en);
    if (any_in(en, SK_LANE_DECODE) && max > SHARED_STEP_ROWS + en->params.n_lanes)
        max = SHARED_STEP_ROWS + en->params.n_lanes;
    return max;
}

/* ---- after a failed decode ---- */

static sk_lane *lane_of(sk_engine *en, uint32_t seq) {
    return seq < en->params.n_lanes ? &en->lanes[seq] : NULL;
}

void sk_lane_restart(sk_engine *en, sk_lane *l, const sk_err *err) {
    if (!l || !l->job) return;
    if (++l->job->faults > MAX_FAULTS) {
        sk_lane_fail(en, l, SKIPPY_E_RUNTIME, err->text);
        return;
    }
    sk_log(SK_LOG_WARN, "lane %u starts over: %s", l->id, err->text);
    en->st.restore_faults++;
    sk_preempt(en, l);
}

static void restart_batch(sk_engine *en, const sk_err *err) {
    for (uint32_t i = 0; i < en->params.n_lanes; i++) {
        sk_lane *l = &en->lanes[i];
        for (uint32_t k = 0; l->job && k < en->n_rows; k++)
            if (en->batch[k].seq == l->id) sk_lane_restart(en, l, err);
    }
}

/* The only running request has filled the context. */
static void end_at_context(sk_engine *en) {
    for (uint32_t i = 0; i < en->params.n_lanes; i++) {
        sk_lane *l = &en->lanes[i];
        if (!l->job) continue;
        if (l->job->n_generated)
            sk_lane_done(en, l, SK_FINISH_CONTEXT);
        else
            sk_lane_fail(en, l, SKIPPY_E_TOO_LARGE, "the prompt does not fit the memory of the context");
        return;
    }
}

static uint32_t running(const sk_engine *en) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < en->params.n_lanes; i++) n += en->lanes[i].job != NULL;
    return n;
}

/* No cells for the batch: evict first, then compute fewer rows, then put the youngest request back. Returns the new
 * budget, 0 when the step has to be composed anew from other lanes or is over. */
static uint32_t relieve(sk_engine *en, uint32_t budget) {
    en->st.cell_retries++;
    uint32_t want = en->n_rows + (sk_engine_bit(en) ? en->rows.multiple - 1 : 0);
    if (sk_context_cells_free(en->ctx) >= want) {
        /* the window pool is short, not the cells: any entry may be the one that holds it */
        if (sk_evict_any(en)) return budget;
    } else if (sk_make_room(en, want)) {
        return budget;
    }
    if (budget > 32 && !sk_engine_bit(en)) {
        en->st.batch_splits++;
        return budget / 2;
    }
    if (running(en) > 1 && sk_preempt_youngest(en, NULL)) return 0;
    end_at_context(en);
    return 0;
}

/* ---- bit mode: cells in position order ---- */

/* The lane cannot go on in order: back to the queue. When nothing else runs, an empty pool is in order by construction.
 */
static void start_over_in_order(sk_engine *en, sk_lane *l) {
    bool alone = running(en) == 1, tried = l->job->from_scratch;
    l->job->from_scratch = true;
    sk_preempt(en, l);
    if (!alone || !tried) return;
    for (uint32_t i = 0; i < en->params.n_lanes; i++) sk_lane_clear(en, &en->lanes[i]);
    while (sk_reuse_evict_one(&en->hold.reuse, SKIPPY_EVICT_CELLS)) {
    } /* to the stores first */
    sk_context_clear(en->ctx);
}

/* Makes every row of the batch land above its sequence's cells. False: lanes changed, compose again. */
static bool order_cells(sk_engine *en) {
    uint32_t bad = 0;
    sk_err err;
    while (!sk_context_rows_sorted(en->ctx, en->batch, en->n_rows, &bad)) {
        sk_lane *l = lane_of(en, bad);
        if (!l) return true;
        int rc = sk_context_seq_relocate(en->ctx, l->id, en->n_rows + en->rows.multiple, &err);
        if (rc == SKIPPY_OK)
            en->st.relocations++;
        else if (rc != SKIPPY_E_FULL || !sk_evict_any(en)) { /* other failures may have cost the sequence */
            start_over_in_order(en, l);
            return false;
        }
    }
    return true;
}

/* ---- after a good decode ---- */

static void advance(sk_engine *en) {
    for (uint32_t k = 0; k < en->n_rows; k++) {
        sk_lane *l = lane_of(en, en->batch[k].seq);
        if (l) l->n++;
    }
}

static int decode(sk_engine *en, uint32_t *bad_seq, sk_err *err) {
    if (en->split) return sk_split_decode(en, bad_seq, err);
    if (!sk_engine_bit(en)) return sk_context_decode(en->ctx, en->batch, en->n_rows, bad_seq, err);
    uint32_t padded = 0;
    int rc = sk_row_class_decode(en->ctx, &en->rows, en->batch, en->n_rows, en->first_scratch, &padded, bad_seq, err);
    en->st.pad_rows += padded;
    return rc;
}

static void pass_boundary(sk_engine *en, sk_lane *l) {
    bool at = l->n_splits && l->splits[0] == l->n;
    while (l->n_splits && l->splits[0] <= l->n) memmove(l->splits, l->splits + 1, --l->n_splits * sizeof *l->splits);
    if (at && sk_may_reuse(en, l->job)) sk_lane_record(en, l);
}

/* The prompt whose terminal logits this row is and that are to be kept; zeroed where nothing is kept. */
static sk_prefix prompt_to_keep(const sk_engine *en, const sk_lane *l) {
    const sk_job *j = l->job;
    sk_prefix copy = {0};
    /* the last stage keeps its own */
    const bool keep = l->n == j->n_prompt && sk_may_reuse(en, j) && !en->split;
    if (!keep) return copy;
    const sk_prefix prompt = sk_job_prefix(j, j->n_prompt);
    if (sk_prefix_copy(&copy, &prompt) != SKIPPY_OK)
        sk_prefix_free(&copy); /* not kept: a later hit decodes once more */
    return copy;
}

void sk_lane_take_row(sk_engine *en, sk_lane *l, const float *row) {
    sk_job *j = l->job;
    if (l->n == j->n_prompt && j->is_shadow) sk_shadow_finish(en, j, row);
    if (l->n == j->n_prompt) sk_shadow_consider(en, j, row);
    /* Sampled first: a row is large and its copy touches fresh memory, and the client need not wait for that. The job
     * may be gone afterwards. */
    sk_prefix kept = prompt_to_keep(en, l);
    sk_lane_sample(en, l, row);
    if (kept.tokens) sk_reuse_record_logits(&en->hold.reuse, &kept, row, 0);
    sk_prefix_free(&kept);
}

static void finish_rows(sk_engine *en, sk_lane *l) {
    sk_job *j = l->job;
    if (l->state == SK_LANE_PREFILL) {
        pass_boundary(en, l);
        sk_job_send_progress(j, l->n < j->n_prompt ? l->n : j->n_prompt);
    }
    if (l->out_row < 0) return;
    if (en->split) {
        sk_split_expect(en, l);
        return;
    }
    const float *row = sk_context_logits(en->ctx, (size_t)l->out_row);
    if (row)
        sk_lane_take_row(en, l, row);
    else
        sk_lane_fail(en, l, SKIPPY_E_RUNTIME, "llama.cpp returned no logits");
}

/* Smaller batches say little about the speed of a prompt. */
enum { MIN_RATE_ROWS = 16 };

static void count_rows(sk_engine *en, double ms) {
    size_t prompt_rows = 0;
    for (uint32_t k = 0; k < en->n_rows; k++) {
        sk_lane *l = lane_of(en, en->batch[k].seq);
        prompt_rows += l && l->state == SK_LANE_PREFILL;
    }
    en->st.decodes++;
    en->st.rows += en->n_rows;
    en->hold.reuse.computed_ms += ms;
    en->st.tokens_computed += prompt_rows;
    if (prompt_rows >= MIN_RATE_ROWS) sk_rates_add_prefill(&en->hold.rates, prompt_rows, ms);
}

bool sk_batch_step(sk_engine *en) {
    uint32_t budget = row_budget(en);
    if (en->split && !sk_split_may_send(en)) return false;
    en->prefill_turn++;
    for (;;) {
        compose(en, budget);
        if (en->n_rows == 0) {
            en->prefill_turn++;
            compose(en, budget);
        }
        if (en->n_rows == 0) return false;
        sk_err err = {0};
        uint32_t bad = UINT32_MAX;
        uint32_t cells = en->n_rows + (sk_engine_bit(en) ? en->rows.multiple - 1 : 0);
        bool room = sk_make_room(en, cells);
        if (room && sk_engine_bit(en) && !order_cells(en)) return true;
        uint64_t start = sk_now_ns();
        int rc = room ? decode(en, &bad, &err) : SKIPPY_E_FULL;
        if (rc == SKIPPY_OK) {
            count_rows(en, (double)(sk_now_ns() - start) / 1e6);
            break;
        }
        if (rc == SKIPPY_E_FULL) {
            budget = relieve(en, budget);
            if (budget == 0) return true;
        } else {
            if (rc == SKIPPY_E_CORRUPT)
                sk_lane_restart(en, lane_of(en, bad), &err);
            else
                restart_batch(en, &err);
            return true;
        }
    }
    advance(en);
    for (uint32_t i = 0; i < en->params.n_lanes; i++) {
        sk_lane *l = &en->lanes[i];
        if (!l->job) continue;
        bool in_batch = false;
        for (uint32_t k = 0; k < en->n_rows && !in_batch; k++) in_batch = en->batch[k].seq == l->id;
        if (in_batch) finish_rows(en, l);
    }
    return true;
}
