/* One step of computing: rows of generating lanes and of prompts go through llama_decode together.
 *
 * Attention-only memory: one batch mixes one row of each generating lane with prompt rows of one or more lanes.
 * Recurrent memory: llama.cpp cuts a batch into pieces with equally many rows of every sequence, so a mixed batch would run
 * over the weights twice; generating lanes and prompts take turns instead.
 * Bit mode: every batch keeps the row class (engine->rows): padded with rows of scratch sequences that are dropped afterwards. */
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

static void add_decode_rows(sk_engine *en) {
    for (uint32_t i = 0; i < en->params.n_lanes; i++) {
        sk_lane *l = &en->lanes[i];
        if (l->state != SK_LANE_DECODE) continue;
        l->out_row = (int32_t)en->n_rows;
        add_row(en, l->id, l->job->tokens[l->n], true);
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
        if (l->state != SK_LANE_PREFILL) continue;
        uint32_t k = n++;
        for (; k > 0 && out[k - 1]->started > l->started; k--) out[k] = out[k - 1];
        out[k] = l;
    }
    return n;
}

/* Adds prompt rows of as many lanes as fit. */
static void fill_with_prompts(sk_engine *en, uint32_t budget) {
    sk_lane *order[256];
    uint32_t n = prefill_lanes(en, order);
    for (uint32_t i = 0; i < n && budget > 0; i++) {
        uint32_t k = rows_to_stop(order[i]);
        if (k > budget) k = budget;
        add_prompt_rows(en, order[i], k);
        budget -= k;
    }
}

/* Bit mode: pads the batch, and the set of rows that want logits, to the row class. The dummy rows come last, so the real rows
 * get their cells first. */
static void pad_rows(sk_engine *en) {
    uint32_t pad = sk_row_class_pad(&en->rows, en->n_rows), outputs = 0;
    bool own_seq = sk_context_get_info(en->ctx)->recurrent; /* equal pieces need one sequence per dummy */
    for (uint32_t i = 0; i < pad; i++) add_row(en, en->first_scratch + (own_seq ? i : 0), 0, false);
    en->st.pad_rows += pad;
    for (uint32_t i = 0; i < en->n_rows; i++) outputs += en->batch[i].output;
    if (outputs == 0) return;
    outputs = sk_row_class_pad(&en->rows, outputs);
    for (uint32_t i = en->n_rows; i-- > 0 && outputs > 0;) {
        if (en->batch[i].output) continue;
        en->batch[i].output = true;
        outputs--;
    }
}

static bool any_in(const sk_engine *en, enum sk_lane_state state) {
    for (uint32_t i = 0; i < en->params.n_lanes; i++)
        if (en->lanes[i].state == state) return true;
    return false;
}

/* Bit mode with recurrent memory: whole multiples of the class alone, the rest one row at a time beside the generating lanes. */
static void compose_bit_recurrent(sk_engine *en, uint32_t budget) {
    sk_lane *order[256];
    uint32_t n = prefill_lanes(en, order);
    for (uint32_t i = 0; i < n && (en->prefill_turn & 1u); i++) {
        uint32_t k = rows_to_stop(order[i]);
        if (k > budget) k = budget;
        k -= k % en->rows.multiple;
        if (k == 0) continue;
        add_prompt_rows(en, order[i], k);
        return;
    }
    add_decode_rows(en);
    for (uint32_t i = 0; i < n; i++)
        if (rows_to_stop(order[i]) < en->rows.multiple) add_prompt_rows(en, order[i], 1);
}

static void compose(sk_engine *en, uint32_t budget) {
    en->n_rows = 0;
    for (uint32_t i = 0; i < en->params.n_lanes; i++) en->lanes[i].out_row = -1;
    bool recurrent = sk_context_get_info(en->ctx)->recurrent;
    if (recurrent && sk_engine_bit(en)) {
        compose_bit_recurrent(en, budget);
    } else if (recurrent) {
        bool prompts = any_in(en, SK_LANE_PREFILL) && ((en->prefill_turn & 1u) || !any_in(en, SK_LANE_DECODE));
        if (prompts) fill_with_prompts(en, budget);
        else add_decode_rows(en);
    } else {
        add_decode_rows(en);
        if (budget > en->n_rows) fill_with_prompts(en, budget - en->n_rows);
    }
    if (sk_engine_bit(en) && en->n_rows) pad_rows(en);
}

static uint32_t row_budget(const sk_engine *en) {
    uint32_t max = en->params.n_batch;
    if (sk_engine_bit(en)) return en->rows.max_rows - en->rows.max_rows % en->rows.multiple;
    if (any_in(en, SK_LANE_DECODE) && max > SHARED_STEP_ROWS + en->params.n_lanes) max = SHARED_STEP_ROWS + en->params.n_lanes;
    return max;
}

/* ---- after a failed decode ---- */

static sk_lane *lane_of(sk_engine *en, uint32_t seq) {
    return seq < en->params.n_lanes ? &en->lanes[seq] : NULL;
}

/* The lane's sequence is gone or wrong: start its request over, or give up when that happened before. */
static void restart_lane(sk_engine *en, sk_lane *l, const sk_err *err) {
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
            if (en->batch[k].seq == l->id) restart_lane(en, l, err);
    }
}

/* The only running request has filled the context. */
static void end_at_context(sk_engine *en) {
    for (uint32_t i = 0; i < en->params.n_lanes; i++) {
        sk_lane *l = &en->lanes[i];
        if (!l->job) continue;
        if (l->job->n_generated) sk_lane_done(en, l, SK_FINISH_CONTEXT);
        else sk_lane_fail(en, l, SKIPPY_E_TOO_LARGE, "the prompt does not fit the memory of the context");
        return;
    }
}

static uint32_t running(const sk_engine *en) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < en->params.n_lanes; i++) n += en->lanes[i].job != NULL;
    return n;
}

/* No cells for the batch: evict first, then compute fewer rows, then put the youngest request back. Returns the new budget, 0 when
 * the step has to be composed anew from other lanes or is over. */
static uint32_t relieve(sk_engine *en, uint32_t budget) {
    en->st.cell_retries++;
    uint32_t want = en->n_rows;
    if (sk_context_cells_free(en->ctx) >= want) {
        /* the window pool is short, not the cells: any entry may be the one that holds it */
        if (sk_evict_any(en)) return budget;
    } else if (sk_make_room(en, want)) {
        return budget;
    }
    if (budget > 32) {
        en->st.batch_splits++;
        return budget / 2;
    }
    if (running(en) > 1 && sk_preempt_youngest(en, NULL)) return 0;
    end_at_context(en);
    return 0;
}

/* ---- bit mode: cells in position order ---- */

/* Makes every row of the batch land above its sequence's cells. False: lanes changed, compose again. */
static bool order_cells(sk_engine *en) {
    uint32_t bad = 0;
    sk_err err;
    while (!sk_context_rows_sorted(en->ctx, en->batch, en->n_rows, &bad)) {
        sk_lane *l = lane_of(en, bad);
        if (!l) return true; /* only a dummy row: its order is nobody's business */
        if (sk_context_seq_relocate(en->ctx, l->id, en->n_rows, &err) == SKIPPY_OK) {
            en->st.relocations++;
            continue;
        }
        if (sk_evict_any(en)) continue;
        if (running(en) > 1) {
            sk_preempt(en, l);
            return false;
        }
        /* alone: an empty pool is in order by construction */
        sk_preempt(en, l);
        sk_reuse_erase(&en->reuse, NULL, true);
        sk_context_clear(en->ctx);
        return false;
    }
    return true;
}

/* ---- after a good decode ---- */

static void advance(sk_engine *en) {
    for (uint32_t k = 0; k < en->n_rows; k++) {
        sk_lane *l = lane_of(en, en->batch[k].seq);
        if (l) l->n++;
    }
    if (!sk_engine_bit(en)) return;
    for (uint32_t s = 0; s < en->n_scratch; s++) sk_context_seq_clear(en->ctx, en->first_scratch + s);
}

static bool records(const sk_engine *en, const sk_job *j) {
    return en->reuse.enabled && !j->no_cache;
}

static void pass_boundary(sk_engine *en, sk_lane *l) {
    bool at = l->n_splits && l->splits[0] == l->n;
    while (l->n_splits && l->splits[0] <= l->n) memmove(l->splits, l->splits + 1, --l->n_splits * sizeof *l->splits);
    if (at && records(en, l->job)) sk_reuse_record(&en->reuse, &l->job->ns, l->job->tenant, l->job->tokens, l->n, l->id);
}

static void finish_rows(sk_engine *en, sk_lane *l) {
    sk_job *j = l->job;
    if (l->state == SK_LANE_PREFILL) {
        pass_boundary(en, l);
        sk_job_send_progress(j, l->n < j->n_prompt ? l->n : j->n_prompt);
    }
    if (l->out_row < 0) return;
    const float *row = sk_context_logits(en->ctx, (size_t)l->out_row);
    if (!row) {
        sk_lane_fail(en, l, SKIPPY_E_RUNTIME, "llama.cpp returned no logits");
        return;
    }
    if (l->n == j->n_prompt && records(en, j))
        sk_reuse_record_logits(&en->reuse, &j->ns, j->tenant, j->tokens, j->n_prompt, row);
    sk_lane_sample(en, l, row);
}

static void count_rows(sk_engine *en) {
    en->st.decodes++;
    en->st.rows += en->n_rows;
    for (uint32_t k = 0; k < en->n_rows; k++) {
        sk_lane *l = lane_of(en, en->batch[k].seq);
        if (l && l->state == SK_LANE_PREFILL) en->st.tokens_computed++;
    }
}

bool sk_batch_step(sk_engine *en) {
    uint32_t budget = row_budget(en);
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
        bool room = sk_context_cells_free(en->ctx) >= en->n_rows || sk_make_room(en, en->n_rows);
        if (room && sk_engine_bit(en) && !order_cells(en)) return true;
        int rc = room ? sk_context_decode(en->ctx, en->batch, en->n_rows, &bad, &err) : SKIPPY_E_FULL;
        if (rc == SKIPPY_OK) break;
        if (rc == SKIPPY_E_FULL) {
            budget = relieve(en, budget);
            if (budget == 0) return true;
        } else {
            if (rc == SKIPPY_E_CORRUPT) restart_lane(en, lane_of(en, bad), &err);
            else restart_batch(en, &err);
            return true;
        }
    }
    count_rows(en);
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
