#include "reuse/ram_cap.h"

#include "runtime/host_memory.h"

static const uint64_t MOST = (uint64_t)8 << 30;

uint64_t sk_ram_cap(uint64_t asked) {
    if (asked != SK_RAM_DERIVE) return asked;
    sk_host_memory memory;
    sk_host_memory_read("", &memory);
    uint64_t quarter = memory.available / 4;
    return quarter < MOST ? quarter : MOST;
}
