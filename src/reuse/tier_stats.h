/* What the stores outside of the runtime report. */
#ifndef SKIPPY_REUSE_TIER_STATS_H
#define SKIPPY_REUSE_TIER_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "skippy/payload.h"

typedef struct sk_tier_stats {
    bool ram_on, disk_on, disk_ready; /* disk_ready: open, its entries can be used */
    skippy_store_stats ram, disk;
    uint64_t staging_bytes /* exported, not stored yet */, fetches, fetch_failures, fetch_bytes;
} sk_tier_stats;

#endif
