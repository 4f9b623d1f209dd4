#include "topology/infer.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

void sk_infer_normalise(const char *name, char *out, size_t cap) {
    size_t n = 0;
    for (; *name && n + 1 < cap; name++) {
        if (strchr(" \t_-/", *name)) continue;
        out[n++] = (char)tolower((unsigned char)*name);
    }
    out[n] = 0;
}

static void answer(sk_infer_match *out, const sk_family_entry *f, enum sk_infer_basis basis, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void answer(sk_infer_match *out, const sk_family_entry *f, enum sk_infer_basis basis, const char *fmt, ...) {
    out->family = f;
    out->basis = basis;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(out->reason, sizeof out->reason, fmt, ap);
    va_end(ap);
}

/* True when name is the reference, with or without the selector behind the colon. */
static bool is_reference(const char *name, const char *reference) {
    if (strcasecmp(name, reference) == 0) return true;
    size_t n = strcspn(reference, ":");
    return strlen(name) == n && strncasecmp(name, reference, n) == 0;
}

static bool arch_agrees(const sk_family_entry *f, const char *arch) {
    if (arch[0] == 0 || strcmp(arch, f->record.arch) == 0) return true;
    return f->reviewed.file_arch && strcmp(arch, f->reviewed.file_arch) == 0;
}

static const sk_family_entry *find_reviewed(const sk_registry *reg, const char *name, const char *arch) {
    for (size_t i = 0; i < reg->n_families; i++) {
        const sk_family_entry *f = &reg->families[i];
        if (f->has_reviewed && is_reference(name, f->reviewed.model) && arch_agrees(f, arch)) return f;
    }
    return NULL;
}

static bool holds(const sk_infer_rule *rule, const sk_infer_query *q, const char *arch, const char *normalised) {
    if (rule->arch && strcmp(rule->arch, arch) != 0) return false;
    if (rule->layers && rule->layers != q->layers) return false;
    if (rule->width && rule->width != q->width) return false;
    for (size_t i = 0; i < rule->n_name_parts; i++)
        if (!strstr(normalised, rule->name_parts[i])) return false;
    return true;
}

static void by_architecture(const sk_registry *reg, const sk_infer_query *q, const char *normalised,
                            sk_infer_match *out) {
    for (size_t i = 0; i < reg->n_by_arch; i++) {
        const sk_infer_rule *rule = &reg->by_arch[i];
        if (!holds(rule, q, q->arch, normalised)) continue;
        if (rule->family)
            answer(out, rule->family, SK_INFER_RULE, "The architecture '%s' with this %s.", rule->arch,
                   rule->n_name_parts ? "name" : "number of layers and width");
        else
            answer(out, NULL, SK_INFER_NONE, "%s", rule->reason);
        return;
    }
    const sk_family_entry *f = sk_registry_arch(reg, q->arch);
    if (f)
        answer(out, f, SK_INFER_ARCH, "The file declares the architecture '%s'.", f->record.arch);
    else
        answer(out, NULL, SK_INFER_NONE, "The architecture '%.60s' is unknown.", q->arch);
}

static void by_name(const sk_registry *reg, const sk_infer_query *q, const char *normalised, sk_infer_match *out) {
    for (size_t i = 0; i < reg->n_by_name; i++) {
        const sk_infer_rule *rule = &reg->by_name[i];
        if (!holds(rule, q, "", normalised)) continue;
        if (rule->family)
            answer(out, rule->family, SK_INFER_NAME, "The name contains '%s'.", rule->name_parts[0]);
        else
            answer(out, NULL, SK_INFER_NONE, "%s", rule->reason);
        return;
    }
    answer(out, NULL, SK_INFER_NONE, "No known family has a name like this.");
}

void sk_infer(const sk_registry *reg, const sk_infer_query *q, sk_infer_match *out) {
    memset(out, 0, sizeof *out);
    const char *arch = q->arch ? q->arch : "", *name = q->name ? q->name : "";
    char normalised[256];
    sk_infer_normalise(name, normalised, sizeof normalised);
    const sk_family_entry *f = find_reviewed(reg, name, arch);
    if (f)
        answer(out, f, SK_INFER_REVIEWED, "It is the model that was reviewed for this family.");
    else if (arch[0])
        by_architecture(reg, q, normalised, out);
    else
        by_name(reg, q, normalised, out);
}
