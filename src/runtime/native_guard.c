#include "runtime/native_guard.h"

#include <stdatomic.h>

static _Atomic(sk_native_guard) installed;

void sk_native_guard_install(sk_native_guard guard) {
    atomic_store(&installed, guard);
}

bool sk_native_call(void (*fn)(void *ud), void *ud, char *msg, size_t cap) {
    if (cap) msg[0] = 0;
    sk_native_guard guard = atomic_load(&installed);
    if (guard) return guard(fn, ud, msg, cap);
    fn(ud);
    return true;
}
