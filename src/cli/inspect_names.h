/* Words for the numbers in a manifest. Unknown numbers (a newer version's) are "unknown". Pure. */
#ifndef SKIPPY_CLI_INSPECT_NAMES_H
#define SKIPPY_CLI_INSPECT_NAMES_H

#include <stdint.h>

#include "skippy/identity.h"

enum { HEX_CHARS = 65, SIZE_CHARS = 32 };

const char *payload_name(uint8_t kind);
const char *part_name(uint8_t kind);
const char *reason_name(uint8_t reason);
const char *reach_name(uint8_t reach);
/* Lower-case hex of the whole key; returns buf. */
const char *hex_of(const skippy_key *key, char buf[HEX_CHARS]);
/* "12.3 MiB", "512 B"; returns buf. */
const char *size_of(uint64_t bytes, char buf[SIZE_CHARS]);
/* Time since then: "45 s", "12 min", "3 h", "9 d"; "-" for a time in the future or 0. Returns buf. */
const char *age_of(uint64_t then_ms, uint64_t now_ms, char buf[SIZE_CHARS]);

#endif
