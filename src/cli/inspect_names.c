#include "cli/inspect_names.h"

#include <inttypes.h>
#include <stdio.h>

#include "skippy/index.h"
#include "skippy/payload.h"

const char *payload_name(uint8_t kind) {
    switch (kind) {
    case SKIPPY_PAYLOAD_RESIDENT_KV: return "resident-kv";
    case SKIPPY_PAYLOAD_KV_RECURRENT: return "kv-recurrent";
    case SKIPPY_PAYLOAD_FULL_STATE: return "full-state";
    case SKIPPY_PAYLOAD_RECURRENT_ONLY: return "recurrent-only";
    case SKIPPY_PAYLOAD_TERMINAL: return "terminal";
    default: return "unknown";
    }
}

const char *part_name(uint8_t kind) {
    switch (kind) {
    case SKIPPY_PART_KV: return "kv";
    case SKIPPY_PART_STATE: return "state";
    case SKIPPY_PART_OPAQUE: return "opaque";
    case SKIPPY_PART_LOGITS: return "logits";
    default: return "unknown";
    }
}

const char *reason_name(uint8_t reason) {
    switch (reason) {
    case SKIPPY_REASON_WRITE_BEHIND: return "write-behind";
    case SKIPPY_REASON_DEMOTED: return "demoted";
    case SKIPPY_REASON_SHUTDOWN: return "shutdown";
    case SKIPPY_REASON_CERTIFY: return "certify";
    default: return "unknown";
    }
}

const char *reach_name(uint8_t reach) {
    switch (reach) {
    case SKIPPY_REACH_EXACT: return "exact";
    case SKIPPY_REACH_RANGE: return "range";
    default: return "unknown";
    }
}

const char *hex_of(const skippy_key *key, char buf[HEX_CHARS]) {
    for (size_t i = 0; i < sizeof key->bytes; i++) snprintf(buf + 2 * i, 3, "%02x", key->bytes[i]);
    return buf;
}

const char *size_of(uint64_t bytes, char buf[SIZE_CHARS]) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes / 1024;
    size_t u = 0;
    if (bytes < 1024) {
        snprintf(buf, SIZE_CHARS, "%" PRIu64 " B", bytes);
        return buf;
    }
    while (v >= 1024 && u + 1 < sizeof units / sizeof *units) {
        v /= 1024;
        u++;
    }
    snprintf(buf, SIZE_CHARS, "%.1f %s", v, units[u]);
    return buf;
}

const char *age_of(uint64_t then_ms, uint64_t now_ms, char buf[SIZE_CHARS]) {
    const uint64_t s = (now_ms - then_ms) / 1000;
    if (then_ms == 0 || then_ms > now_ms)
        snprintf(buf, SIZE_CHARS, "-");
    else if (s < 120)
        snprintf(buf, SIZE_CHARS, "%" PRIu64 " s", s);
    else if (s < 120 * 60)
        snprintf(buf, SIZE_CHARS, "%" PRIu64 " min", s / 60);
    else if (s < (uint64_t)48 * 3600)
        snprintf(buf, SIZE_CHARS, "%" PRIu64 " h", s / 3600);
    else
        snprintf(buf, SIZE_CHARS, "%" PRIu64 " d", s / 86400);
    return buf;
}
