/* Did the servers do the same work? The gate of a part in words. */
#include <inttypes.h>

#include "bench/family/table_cell.h"

static json_int_t number(const json_t *gate, const char *name) {
    return json_integer_value(json_object_get(gate, name));
}

static void add_difference(const json_t *gate, sk_buf *out) {
    if (json_is_false(json_object_get(gate, "same_prompts")))
        sk_buf_str(out, "prompts differ");
    else
        sk_buf_printf(out,
                      "differ: %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT
                      " cold answers equal, first tokens %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT,
                      number(gate, "cold_equal"), number(gate, "cold"), number(gate, "first_equal"),
                      number(gate, "answers"));
}

void sk_column_gate(const sk_family_row *r, const char *part, size_t host, sk_buf *out) {
    const json_t *parts = json_object_get(r->json, "parts");
    const json_t *gate = host < r->n_hosts
                             ? json_object_get(json_object_get(json_object_get(parts, part), "gate"), r->host[host])
                             : NULL;
    sk_buf_str(out, " ");
    if (!gate)
        sk_buf_str(out, "not compared");
    else if (!json_is_true(json_object_get(gate, "comparable")))
        add_difference(gate, out);
    else
        sk_buf_printf(out, "same (%" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT ")", number(gate, "cold_equal"),
                      number(gate, "cold"));
    if (gate && number(gate, "cold_ties") > 0)
        sk_buf_printf(out, ", near ties %" JSON_INTEGER_FORMAT, number(gate, "cold_ties"));
    sk_buf_str(out, " |");
}
