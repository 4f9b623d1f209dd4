/* Parcels in stores and back, and the folder of a disk store. No model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/store_folder.h"
#include "bench/store_pack.h"
#include "skippy/ram_store.h"

enum { KV_BYTES = 20000, TAIL_BYTES = 9000, TOKENS = 300 };

static const skippy_key key;
static int32_t tokens[TOKENS];
static const sk_store_name name = {.ns = &key, .layout = &key, .tokens = tokens};

static void add_part(sk_parcel *p, int kind, size_t bytes, size_t cut) {
    sk_blob *b = &p->blob[p->n_parts];
    *b = (sk_blob){.data = malloc(bytes), .len = bytes, .cuts = calloc(2, sizeof *b->cuts), .n_cuts = 2};
    assert_non_null(b->data);
    assert_non_null(b->cuts);
    for (size_t i = 0; i < bytes; i++) b->data[i] = (uint8_t)(i * 31 + i / 251 + (size_t)kind);
    b->cuts[0] = cut;
    b->cuts[1] = bytes;
    p->part[p->n_parts++] = (sk_state_part){.kind = kind, .to = TOKENS, .data = b->data, .len = bytes};
}

static sk_parcel make_parcel(void) {
    sk_parcel p = {.kind = SKIPPY_PAYLOAD_KV_RECURRENT, .n_tokens = TOKENS};
    add_part(&p, SKIPPY_PART_KV, KV_BYTES, 5000);
    add_part(&p, SKIPPY_PART_STATE, TAIL_BYTES, 4500);
    return p;
}

static skippy_ram_store *open_ram(void) {
    const skippy_ram_params params = {.max_bytes = UINT64_MAX};
    skippy_ram_store *s = NULL;
    assert_int_equal(skippy_ram_create(NULL, &params, &s), SKIPPY_OK);
    return s;
}

/* Puts the parcel under a name that depends on number; what the store asked for is left in the pack's sums. */
static uint64_t put(skippy_ram_store *s, const sk_parcel *parcel, int32_t number, sk_store_pack *pack) {
    uint64_t id = 0;
    tokens[0] = number;
    assert_int_equal(sk_store_pack_make(parcel, &name, pack, NULL), SKIPPY_OK);
    assert_int_equal(skippy_ram_put(s, &pack->m, sk_store_pack_source, pack, &id), SKIPPY_OK);
    return id;
}

static void bytes_are_counted_by_content_and_only_when_they_are_new(void **state) {
    (void)state;
    skippy_ram_store *s = open_ram();
    sk_parcel parcel = make_parcel();
    sk_store_pack pack;
    put(s, &parcel, 1, &pack);
    assert_int_equal(pack.n, 4);
    assert_int_equal(pack.sum[SK_STORE_KV].fresh, KV_BYTES);
    assert_int_equal(pack.sum[SK_STORE_TAIL].fresh, TAIL_BYTES);
    assert_int_equal(pack.sum[SK_STORE_WHOLE].logical, 0);
    sk_store_pack_free(&pack);
    parcel.blob[0].data[KV_BYTES - 1] ^= 1; /* in the second block */
    put(s, &parcel, 2, &pack);
    assert_int_equal(sk_store_pack_total(&pack).logical, KV_BYTES + TAIL_BYTES);
    assert_int_equal(sk_store_pack_total(&pack).fresh, KV_BYTES - 5000);
    sk_store_pack_free(&pack);
    sk_parcel_free(&parcel);
    skippy_ram_destroy(s);
}

static void a_stamped_parcel_shares_nothing(void **state) {
    (void)state;
    skippy_ram_store *s = open_ram();
    sk_parcel parcel = make_parcel();
    sk_store_pack pack;
    put(s, &parcel, 1, &pack);
    sk_store_stamp(&parcel, &pack, 77);
    sk_store_pack_free(&pack);
    put(s, &parcel, 2, &pack);
    assert_int_equal(sk_store_pack_total(&pack).fresh, KV_BYTES + TAIL_BYTES);
    sk_store_pack_free(&pack);
    sk_parcel_free(&parcel);
    skippy_ram_destroy(s);
}

static void a_fetched_entry_has_the_bytes_that_were_put(void **state) {
    (void)state;
    skippy_ram_store *s = open_ram();
    sk_parcel parcel = make_parcel(), back;
    sk_store_pack pack;
    const skippy_manifest *m = NULL;
    uint8_t *buf = malloc(SKIPPY_BLOCK_MAX);
    const uint64_t id = put(s, &parcel, 1, &pack);
    assert_int_equal(skippy_ram_lease(s, id, &m), SKIPPY_OK);
    assert_int_equal(sk_store_fetch(m, sk_store_read_ram, s, &back, NULL), SKIPPY_OK);
    assert_int_equal(sk_store_read_all(m, sk_store_read_ram, s, buf, NULL), SKIPPY_OK);
    assert_int_equal(back.n_parts, 2);
    assert_int_equal(back.n_tokens, TOKENS);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(back.part[i].len, parcel.part[i].len);
        assert_memory_equal(back.part[i].data, parcel.part[i].data, parcel.part[i].len);
    }
    skippy_ram_release(s, id);
    sk_parcel_free(&back);
    sk_store_pack_free(&pack);
    sk_parcel_free(&parcel);
    free(buf);
    skippy_ram_destroy(s);
}

static int read_nothing(void *store, const skippy_block_ref *block, void *buf) {
    (void)store, (void)block, (void)buf;
    return SKIPPY_E_CORRUPT;
}

static void an_unreadable_block_ends_a_fetch_with_words(void **state) {
    (void)state;
    sk_parcel parcel = make_parcel(), back;
    sk_store_pack pack;
    sk_err e = {0};
    uint8_t buf[1];
    assert_int_equal(sk_store_pack_make(&parcel, &name, &pack, NULL), SKIPPY_OK);
    assert_int_equal(sk_store_fetch(&pack.m, read_nothing, NULL, &back, &e), SKIPPY_E_CORRUPT);
    assert_int_equal(back.n_parts, 0);
    assert_non_null(strstr(e.text, "could not be read back"));
    assert_int_equal(sk_store_read_all(&pack.m, read_nothing, NULL, buf, &e), SKIPPY_E_CORRUPT);
    pack.m.n_parts = SK_PARCEL_MAX_PARTS + 1;
    assert_int_equal(sk_store_fetch(&pack.m, read_nothing, NULL, &back, &e), SKIPPY_E_TOO_LARGE);
    sk_store_pack_free(&pack);
    sk_parcel_free(&parcel);
}

static void cuts_that_do_not_fit_are_refused_with_words(void **state) {
    (void)state;
    sk_parcel parcel = make_parcel();
    sk_store_pack pack;
    sk_err e = {0};
    parcel.blob[1].cuts[1] = TAIL_BYTES + 1;
    assert_int_equal(sk_store_pack_make(&parcel, &name, &pack, &e), SKIPPY_E_INVALID);
    assert_null(pack.ref);
    assert_non_null(strstr(e.text, "could not be cut"));
    sk_parcel_free(&parcel);
}

static void a_source_gives_only_what_it_has(void **state) {
    (void)state;
    sk_parcel parcel = make_parcel();
    sk_store_pack pack;
    const void *data = NULL;
    assert_int_equal(sk_store_pack_make(&parcel, &name, &pack, NULL), SKIPPY_OK);
    skippy_block_ref other = pack.ref[2];
    assert_int_equal(sk_store_pack_source(&pack, &other, &data), SKIPPY_OK);
    assert_ptr_equal(data, parcel.blob[1].data);
    other.digest.bytes[0] ^= 1;
    assert_int_equal(sk_store_pack_source(&pack, &other, &data), SKIPPY_E_NOT_FOUND);
    assert_int_equal(sk_store_pack_total(&pack).fresh, other.bytes);
    sk_store_pack_free(&pack);
    sk_parcel_free(&parcel);
}

/* ---- the folder ---- */

static void an_entry_in_the_folder_is_found_again_until_it_is_removed(void **state) {
    (void)state;
    sk_store_folder f;
    sk_parcel parcel = make_parcel();
    sk_store_pack pack;
    skippy_disk_store *disk = NULL;
    uint64_t id = 0, found = 0;
    bool cold;
    assert_int_equal(sk_store_folder_make(".", &f, NULL), SKIPPY_OK);
    assert_int_equal(sk_store_folder_open(&f, &disk, NULL, NULL), SKIPPY_OK);
    assert_int_equal(sk_store_pack_make(&parcel, &name, &pack, NULL), SKIPPY_OK);
    assert_int_equal(skippy_disk_put(disk, &pack.m, sk_store_pack_source, &pack, &id, NULL), SKIPPY_OK);
    skippy_disk_close(disk);
    assert_int_equal(sk_store_folder_cool(&f, &cold, NULL), SKIPPY_OK);
    assert_int_equal(sk_store_folder_open(&f, &disk, &found, NULL), SKIPPY_OK);
    assert_true(found != 0);
    skippy_disk_close(disk);
    char path[sizeof f.path];
    memcpy(path, f.path, sizeof path);
    sk_store_folder_remove(&f);
    assert_int_equal(access(path, F_OK), -1);
    sk_store_pack_free(&pack);
    sk_parcel_free(&parcel);
}

static void a_folder_that_cannot_be_made_or_used_says_so(void **state) {
    (void)state;
    sk_store_folder f, gone = {.path = "there/is/no/such/folder"};
    sk_err e = {0};
    skippy_disk_store *disk = NULL;
    bool cold;
    assert_int_equal(sk_store_folder_make("there/is/no/such/folder", &f, &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, "there/is/no/such/folder"));
    assert_string_equal(f.path, "");
    sk_store_folder_remove(&f); /* nothing to remove */
    assert_int_equal(sk_store_folder_cool(&gone, &cold, &e), SKIPPY_E_IO);
    assert_int_equal(sk_store_folder_open(&gone, &disk, NULL, &e), SKIPPY_E_IO);
    assert_string_not_equal(e.text, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_counted_by_content_and_only_when_they_are_new),
        cmocka_unit_test(a_stamped_parcel_shares_nothing),
        cmocka_unit_test(a_fetched_entry_has_the_bytes_that_were_put),
        cmocka_unit_test(an_unreadable_block_ends_a_fetch_with_words),
        cmocka_unit_test(cuts_that_do_not_fit_are_refused_with_words),
        cmocka_unit_test(a_source_gives_only_what_it_has),
        cmocka_unit_test(an_entry_in_the_folder_is_found_again_until_it_is_removed),
        cmocka_unit_test(a_folder_that_cannot_be_made_or_used_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
