/* Ends the writing process at random system calls and looks at what the next open finds.
 *
 * Each cycle forks a child that opens the store and puts, drops, erases and compacts at random until it is killed in
 * the middle of a system call that was drawn before (a write may be cut short first). The child notes in shared memory
 * what it began and what returned. Two kinds of death: kill       SIGKILL: what was written is there, whether synced or
 * not. power cut  what was not synced is lost at random, before SIGKILL: tails of files are cut or become zeros,
 * published names vanish and removed files come back unless the folder was synced since. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/disk_fixture.h"
#include "cache/disk_internal.h"
#include "cache/test_random.h"

enum { BLOCK = 500, SEGMENT = 4000, CHATS = 12, CYCLES = 125, STEPS = 40, MAX_EVENTS = 256, MAX_CALLS = 600 };

/* How the child dies: what a power cut takes of the things that were not synced. */
enum death {
    KILL,
    CUT_AT_RANDOM,
    CUT_LOSES_NEW, /* all of what was written and published is lost, all that was removed is gone */
    CUT_KEEPS_OLD  /* what was published stays, all that was removed comes back */
};

/* ---- what the child tells ---- */

enum what { DID_PUT, DID_DROP, DID_ERASE };

typedef struct event {
    enum what what;
    unsigned chat, turns; /* erase: everything of the chat */
    volatile bool returned;
} event;

typedef struct report {
    volatile size_t n;
    event events[MAX_EVENTS];
} report;

static volatile bool *begin(report *r, enum what what, unsigned chat, unsigned turns) {
    event *e = &r->events[r->n];
    e->what = what;
    e->chat = chat;
    e->turns = turns;
    e->returned = false;
    r->n++;
    return &e->returned;
}

/* ---- the killer: the child's hook ---- */

typedef struct watched {
    ino_t inode;
    off_t synced;
} watched;

typedef struct killer {
    const scratch *t;
    test_random rnd;
    size_t left; /* calls until the end */
    enum death death;
    bool cut_next;
    watched files[512];
    size_t n_files;
    char published[64][SK_FILE_NAME_BYTES]; /* since the folder was synced */
    size_t n_published;
    /* Syncs of the call before: it has returned when the next call comes. */
    bool syncing_folder;
    ino_t syncing;
    off_t syncing_to;
} killer;

static watched *watch(killer *k, int fd) {
    struct stat st;
    if (fstat(fd, &st) != 0) abort();
    for (size_t i = 0; i < k->n_files; i++)
        if (k->files[i].inode == st.st_ino) return &k->files[i];
    if (k->n_files == sizeof k->files / sizeof *k->files) abort();
    k->files[k->n_files] = (watched){st.st_ino, st.st_size};
    return &k->files[k->n_files++];
}

static void grave_path(const killer *k, const char *name, char out[400]) {
    snprintf(out, 400, "%s/grave-%s", k->t->dir, name);
}

/* The folder was synced: what was published stays, what was removed is gone. */
static void folder_synced(killer *k) {
    char path[600];
    DIR *d = opendir(k->t->dir);
    k->n_published = 0;
    for (const struct dirent *item; d && (item = readdir(d));) {
        if (strncmp(item->d_name, "grave-", 6) != 0) continue;
        snprintf(path, sizeof path, "%s/%.250s", k->t->dir, item->d_name);
        unlink(path);
    }
    if (d) closedir(d);
}

static void note_call(killer *k, const sk_io_call *call) {
    char from[400], to[400];
    struct stat st;
    if (k->syncing_folder) folder_synced(k);
    k->syncing_folder = false;
    if (k->syncing) {
        for (size_t i = 0; i < k->n_files; i++)
            if (k->files[i].inode == k->syncing) k->files[i].synced = k->syncing_to;
        k->syncing = 0;
    }
    switch (call->op) {
    case SK_IO_WRITE: watch(k, call->fd); break;
    case SK_IO_TRUNCATE: {
        watched *w = watch(k, call->fd);
        if ((off_t)call->offset < w->synced) w->synced = (off_t)call->offset;
        break;
    }
    case SK_IO_SYNC:
        if (fstat(call->fd, &st) != 0) abort();
        k->syncing_folder = S_ISDIR(st.st_mode);
        if (k->syncing_folder) break;
        k->syncing = st.st_ino;
        k->syncing_to = st.st_size;
        break;
    case SK_IO_RENAME:
        if (k->n_published < 64) snprintf(k->published[k->n_published++], SK_FILE_NAME_BYTES, "%s", call->name);
        break;
    case SK_IO_UNLINK:
        snprintf(from, sizeof from, "%s/%s", k->t->folder, call->name);
        grave_path(k, call->name, to);
        (void)link(from, to);
        break;
    default: break;
    }
}

/* Is one thing that was not synced lost? `new_thing`: something that was written, rather than removed. */
static bool loses(killer *k, bool new_thing) {
    if (k->death == CUT_AT_RANDOM) return random_below(&k->rnd, 2);
    return (k->death == CUT_LOSES_NEW) == new_thing;
}

static void lose_tail(killer *k, const char *path, off_t synced, off_t size) {
    off_t keep = synced;
    if (k->death != CUT_LOSES_NEW) keep += (off_t)random_below(&k->rnd, (size_t)(size - synced) + 1);
    int fd = open(path, O_RDWR);
    if (fd < 0) abort();
    if (ftruncate(fd, keep) != 0) abort();
    if (random_below(&k->rnd, 2) && ftruncate(fd, size) != 0) abort(); /* zeros instead of nothing */
    close(fd);
}

static void lose_unsynced(killer *k) {
    char path[600], grave[400];
    for (size_t i = 0; i < k->n_published; i++) {
        snprintf(path, sizeof path, "%s/%s", k->t->folder, k->published[i]);
        if (loses(k, true)) unlink(path);
    }
    DIR *d = opendir(k->t->dir);
    for (const struct dirent *item; d && (item = readdir(d));) {
        if (strncmp(item->d_name, "grave-", 6) != 0 || !loses(k, false)) continue;
        grave_path(k, item->d_name + 6, grave);
        snprintf(path, sizeof path, "%s/%.250s", k->t->folder, item->d_name + 6);
        (void)link(grave, path);
    }
    if (d) closedir(d);
    d = opendir(k->t->folder);
    for (const struct dirent *item; d && (item = readdir(d));) {
        struct stat st;
        snprintf(path, sizeof path, "%s/%.250s", k->t->folder, item->d_name);
        if (lstat(path, &st) != 0 || !S_ISREG(st.st_mode)) continue;
        for (size_t i = 0; i < k->n_files; i++)
            if (k->files[i].inode == st.st_ino && k->files[i].synced < st.st_size)
                lose_tail(k, path, k->files[i].synced, st.st_size);
    }
    if (d) closedir(d);
}

static void die(killer *k) {
    if (k->death != KILL) lose_unsynced(k);
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static int killer_before(void *ud, sk_io_call *call) {
    killer *k = ud;
    if (k->cut_next) die(k);
    note_call(k, call);
    if (--k->left > 0) return 0;
    if (call->op != SK_IO_WRITE || random_below(&k->rnd, 4) == 0) die(k);
    call->bytes = 1 + random_below(&k->rnd, call->bytes);
    k->cut_next = true;
    return 0;
}

/* ---- the child ---- */

typedef struct job {
    const scratch *t;
    uint64_t seed, max_bytes;
    size_t last_call; /* the call to die at; 0 = drawn */
    enum death death;
    report *r;
} job;

/* Are the tokens of a conversation's second turn on the disk? They are in no shorter entry. */
static bool tokens_on_disk(const char *folder, unsigned chat) {
    test_entry e;
    uint8_t needle[TEST_TOKENS * 4];
    bool hit = false;
    char path[600];
    test_entry_make(&e, chat, 2, BLOCK);
    for (size_t i = 0; i < TEST_TOKENS; i++) sk_put_u32(needle + 4 * i, (uint32_t)e.tokens[TEST_TOKENS + i]);
    test_entry_free(&e);
    DIR *d = opendir(folder);
    for (const struct dirent *item; d && (item = readdir(d));) {
        size_t len;
        if (item->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%.250s", folder, item->d_name);
        uint8_t *data = file_read(path, &len);
        hit |= memmem(data, len, needle, sizeof needle) != NULL;
        free(data);
    }
    if (d) closedir(d);
    return hit;
}

static bool find_id(skippy_disk_store *s, unsigned chat, unsigned turns, uint64_t *id) {
    test_entry e;
    test_entry_make(&e, chat, turns, BLOCK);
    const sk_disk_entry *found = sk_index_entry_same(&s->ix, &e.m);
    if (found) *id = found->id;
    test_entry_free(&e);
    return found != NULL;
}

static void child_erase(const job *j, skippy_disk_store *s, unsigned chat) {
    test_entry e;
    size_t n;
    test_entry_make(&e, chat, 1, BLOCK);
    skippy_erase_filter f = {.tokens = e.tokens, .n_tokens = e.m.n_tokens};
    volatile bool *returned = begin(j->r, DID_ERASE, chat, 0);
    if (skippy_disk_erase(s, &f, &n, NULL) != SKIPPY_OK) abort();
    if (tokens_on_disk(j->t->folder, chat)) abort();
    *returned = true;
    test_entry_free(&e);
}

static void child_put(const job *j, skippy_disk_store *s, unsigned chat, unsigned turns) {
    uint64_t id;
    volatile bool *returned = begin(j->r, DID_PUT, chat, turns);
    int status = test_put_chat(s, chat, turns, BLOCK, &id);
    if (status != SKIPPY_OK && status != SKIPPY_E_EXISTS && !j->max_bytes) abort();
    *returned = status == SKIPPY_OK || status == SKIPPY_E_EXISTS;
}

static void child_drop(const job *j, skippy_disk_store *s, unsigned chat, unsigned turns) {
    uint64_t id;
    if (!find_id(s, chat, turns, &id)) return;
    volatile bool *returned = begin(j->r, DID_DROP, chat, turns);
    if (skippy_disk_drop(s, id, SKIPPY_DROP_SUPERSEDED) != SKIPPY_OK) abort();
    *returned = true;
}

static bool child_compact(skippy_disk_store *s) {
    bool more;
    if (skippy_disk_compact(s, &more, NULL) != SKIPPY_OK) abort();
    return more;
}

static void child_step(const job *j, skippy_disk_store *s, test_random *rnd) {
    unsigned chat = (unsigned)random_below(rnd, CHATS), turns = 1 + (unsigned)random_below(rnd, TEST_TURNS);
    size_t dice = random_below(rnd, 20);
    if (dice < 13)
        child_put(j, s, chat, turns);
    else if (dice < 16)
        child_drop(j, s, chat, turns);
    else if (dice < 19)
        child_compact(s);
    else
        child_erase(j, s, chat);
}

/* The same for every run of a sweep: each kind of change at least once. */
static void child_script(const job *j, skippy_disk_store *s) {
    child_put(j, s, 1, 3);
    child_put(j, s, 1, 4);
    child_put(j, s, 2, 5);
    child_drop(j, s, 2, 5);
    child_put(j, s, 3, 2);
    child_erase(j, s, 1);
    child_put(j, s, 4, 3);
    while (child_compact(s)) continue;
}

static void child(const job *j) {
    killer k = {.t = j->t, .death = j->death, .rnd = {j->seed}};
    sk_io io = {.before = killer_before, .ud = &k};
    skippy_disk_store *s;
    k.left = j->last_call;
    if (!k.left)
        k.left = 1 + random_below(&k.rnd, random_below(&k.rnd, 4) == 0 ? 30 : j->max_bytes ? 4 * MAX_CALLS : MAX_CALLS);
    if (scratch_open(j->t, &io, j->max_bytes, SEGMENT, NULL, NULL, &s, NULL) != SKIPPY_OK) abort();
    if (j->last_call) child_script(j, s);
    for (size_t i = 0; !j->last_call && i < STEPS; i++) child_step(j, s, &k.rnd);
    skippy_disk_close(s);
    _exit(0);
}

/* ---- the parent ---- */

/* What is known of an entry between two opens. */
enum belief {
    ABSENT,  /* it was never stored, or it is gone for good */
    PRESENT, /* it must be there */
    UNSURE   /* both are right */
};

typedef struct parent {
    scratch t;
    report *r;
    uint64_t max_bytes;
    enum death death;
    enum belief belief[CHATS][TEST_TURNS + 1];
    bool erased[CHATS];  /* the last erase of the chat returned, and nothing of it was put since */
    bool erasing[CHATS]; /* it did not return, and there was nothing dead of the chat before */
    size_t killed, survived;
} parent;

static found_list found;

/* The events in their order; only the last one can be one that did not return. */
static void believe(parent *p, bool sweep) {
    for (size_t i = 0; i < p->r->n; i++) {
        const event *e = &p->r->events[i];
        enum belief *b = &p->belief[e->chat][e->turns];
        switch (e->what) {
        case DID_PUT:
            *b = p->max_bytes ? UNSURE : e->returned ? PRESENT : *b == PRESENT ? PRESENT : UNSURE;
            p->erased[e->chat] = false;
            break;
        /* A drop is written and not synced: a power cut may undo it. */
        case DID_DROP: *b = e->returned && p->death == KILL ? ABSENT : UNSURE; break;
        case DID_ERASE:
            for (size_t t = 1; t <= TEST_TURNS; t++)
                p->belief[e->chat][t] = e->returned || p->belief[e->chat][t] == ABSENT ? ABSENT : UNSURE;
            p->erased[e->chat] = e->returned;
            p->erasing[e->chat] = !e->returned && sweep;
            break;
        }
    }
}

/* Every segment ends with its last live block. */
static void check_no_tails(skippy_disk_store *s) {
    for (const sk_segment *g = s->ix.segments; g; g = g->next) {
        uint64_t end = 0;
        for (const sk_disk_block *b = g->blocks; b; b = b->next) {
            uint64_t after = b->offset + SK_BLOCK_HEADER_BYTES + b->ref.bytes;
            if (after > end) end = after;
        }
        assert_int_equal(g->size, end);
    }
}

static void check_store(parent *p) {
    skippy_disk_store *s;
    skippy_disk_detail detail = {{0}};
    bool there[CHATS][TEST_TURNS + 1] = {{false}};
    int status = scratch_open(&p->t, NULL, p->max_bytes, SEGMENT, &found, NULL, &s, &detail);
    if (status != SKIPPY_OK) print_error("%s\n", detail.text);
    assert_int_equal(status, SKIPPY_OK);
    check_accounts(&p->t, s);
    check_no_tails(s);
    for (size_t i = 0; i < found.n; i++) {
        assert_int_equal(test_check(s, found.id[i], found.chat[i], found.turns[i], BLOCK), SKIPPY_OK);
        there[found.chat[i]][found.turns[i]] = true;
    }
    for (size_t chat = 0; chat < CHATS; chat++) {
        for (size_t turns = 1; turns <= TEST_TURNS; turns++) {
            if (p->belief[chat][turns] == PRESENT) assert_true(there[chat][turns]);
            if (p->belief[chat][turns] == ABSENT) assert_false(there[chat][turns]);
            p->belief[chat][turns] = there[chat][turns] ? (p->max_bytes ? UNSURE : PRESENT) : ABSENT;
        }
        /* An erase that was interrupted behind its first record is completed by the open. */
        bool gone = p->erased[chat] || (p->erasing[chat] && !there[chat][4]);
        if (gone) assert_false(tokens_on_disk(p->t.folder, (unsigned)chat));
    }
    skippy_disk_close(s);
}

static void remove_graves(const scratch *t) {
    char path[600];
    DIR *d = opendir(t->dir);
    for (const struct dirent *item; d && (item = readdir(d));) {
        snprintf(path, sizeof path, "%s/%.250s", t->dir, item->d_name);
        if (strncmp(item->d_name, "grave-", 6) == 0) unlink(path);
    }
    if (d) closedir(d);
}

/* Returns whether the child came to its end. */
static bool cycle(parent *p, uint64_t seed, size_t last_call) {
    int how;
    job j = {.t = &p->t, .seed = seed, .max_bytes = p->max_bytes, .last_call = last_call, .death = p->death, .r = p->r};
    memset(p->r, 0, sizeof *p->r);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) child(&j);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    bool finished = WIFEXITED(how) && WEXITSTATUS(how) == 0;
    assert_true(finished || (WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL));
    p->killed += !finished;
    p->survived += finished;
    remove_graves(&p->t);
    believe(p, last_call > 0);
    check_store(p);
    return finished;
}

static void run(const char *name, enum death death, uint64_t max_bytes) {
    parent p = {.death = death, .max_bytes = max_bytes};
    test_random rnd = disk_random_start(name, CYCLES);
    p.r = mmap(NULL, sizeof *p.r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p.r != MAP_FAILED);
    scratch_make(&p.t);
    for (size_t i = 0; i < CYCLES; i++) cycle(&p, random_u64(&rnd), 0);
    printf("%s: %zu killed, %zu came to their end\n", name, p.killed, p.survived);
    assert_true(p.killed >= CYCLES / 2);
    scratch_remove(&p.t);
    munmap(p.r, sizeof *p.r);
}

/* The same script again and again, each time up to one call further, until it comes to its end. */
static void sweep(const char *name, enum death death) {
    test_random rnd = disk_random_start(name, 0);
    report *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(r != MAP_FAILED);
    size_t call = 0;
    for (bool finished = false; !finished;) {
        parent p = {.death = death, .r = r};
        scratch_make(&p.t);
        finished = cycle(&p, random_u64(&rnd), ++call);
        scratch_remove(&p.t);
        assert_true(call < 2000);
    }
    printf("%s: %zu calls\n", name, call);
    assert_true(call > 50);
    munmap(r, sizeof *r);
}

static void kill_at_every_call_of_a_script(void **state) {
    (void)state;
    sweep("kill, sweep", KILL);
}

static void power_cut_at_every_call_of_a_script(void **state) {
    (void)state;
    sweep("power cut, sweep", CUT_AT_RANDOM);
    sweep("power cut that loses what is new, sweep", CUT_LOSES_NEW);
    sweep("power cut that keeps what is old, sweep", CUT_KEEPS_OLD);
}

static void kill_at_any_call_loses_nothing_that_returned(void **state) {
    (void)state;
    run("kill", KILL, 0);
}

static void kill_at_any_call_under_a_limit(void **state) {
    (void)state;
    run("kill, limit", KILL, 60000);
}

static void power_cut_at_any_call_loses_nothing_that_returned(void **state) {
    (void)state;
    run("power cut", CUT_AT_RANDOM, 0);
}

static void power_cut_at_any_call_under_a_limit(void **state) {
    (void)state;
    run("power cut, limit", CUT_AT_RANDOM, 60000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kill_at_every_call_of_a_script),
        cmocka_unit_test(power_cut_at_every_call_of_a_script),
        cmocka_unit_test(kill_at_any_call_loses_nothing_that_returned),
        cmocka_unit_test(kill_at_any_call_under_a_limit),
        cmocka_unit_test(power_cut_at_any_call_loses_nothing_that_returned),
        cmocka_unit_test(power_cut_at_any_call_under_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
