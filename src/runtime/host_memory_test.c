#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/test_folder.h"
#include "runtime/host_memory.h"
#include "runtime/test_gguf.h"

/* A pretended machine: a directory that looks like / to the reader. */
static char root[300];

static void put(const char *path, const char *text) {
    char full[800];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = 0;
        mkdir(full, 0700);
        *p = '/';
    }
    assert_true(gg_write(full, text, strlen(text)));
}

static int make_machine(void **state) {
    (void)state;
    return gg_temp_dir(root, sizeof root) ? 0 : -1;
}

static int remove_machine(void **state) {
    (void)state;
    return test_remove_tree(root);
}

#define GIB (UINT64_C(1) << 30)

static void without_limits_the_machine_counts(void **state) {
    (void)state;
    sk_host_memory m;
    put("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\n");
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/memory.max", "max\n");
    sk_host_memory_read(root, &m);
    assert_int_equal(m.total, 16 * GIB);
    assert_int_equal(m.available, 8 * GIB);
}

static void a_limit_of_any_parent_group_counts(void **state) {
    (void)state;
    sk_host_memory m;
    put("/proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n");
    put("/proc/self/cgroup", "0::/user.slice/app.service\n");
    put("/sys/fs/cgroup/user.slice/app.service/memory.max", "6442450944\n");
    put("/sys/fs/cgroup/user.slice/memory.max", "4294967296\n");
    sk_host_memory_read(root, &m);
    assert_int_equal(m.total, 4 * GIB);
    assert_int_equal(m.available, 4 * GIB);
}

static void a_version_1_memory_controller_counts(void **state) {
    (void)state;
    sk_host_memory m;
    put("/proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 1048576 kB\n");
    put("/proc/self/cgroup", "9:cpu:/x\n7:memory:/docker/abc\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
    put("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "9223372036854771712\n");
    sk_host_memory_read(root, &m);
    assert_int_equal(m.total, 2 * GIB);
    assert_int_equal(m.available, GIB);
}

static void what_cannot_be_read_is_unknown(void **state) {
    (void)state;
    sk_host_memory m;
    sk_host_memory_read(root, &m);
    assert_int_equal(m.total, 0);
    assert_int_equal(m.available, 0);
}

static void this_machine_has_memory(void **state) {
    (void)state;
    sk_host_memory m;
    sk_host_memory_read("", &m);
    assert_true(m.total > 0);
    assert_true(m.available <= m.total);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_limits_the_machine_counts, make_machine, remove_machine),
        cmocka_unit_test_setup_teardown(a_limit_of_any_parent_group_counts, make_machine, remove_machine),
        cmocka_unit_test_setup_teardown(a_version_1_memory_controller_counts, make_machine, remove_machine),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_is_unknown, make_machine, remove_machine),
        cmocka_unit_test(this_machine_has_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
