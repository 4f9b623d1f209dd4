/* How much memory the RAM store may take. */
#ifndef SKIPPY_REUSE_RAM_CAP_H
#define SKIPPY_REUSE_RAM_CAP_H

#include <stdint.h>

/* Asks for a quarter of the memory that is free at the start, 8 GiB at most. */
#define SK_RAM_DERIVE UINT64_MAX

/* Bytes: what was asked for, or what SK_RAM_DERIVE stands for on this machine now. */
uint64_t sk_ram_cap(uint64_t asked);

#endif
