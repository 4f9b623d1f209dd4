#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/launch.h"
#include "bench/process.h"

static char dir[64];
static char log_path[128];

static int make_dir(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "process-test-XXXXXX");
    if (!mkdtemp(dir)) {
        return -1;
    }
    snprintf(log_path, sizeof log_path, "%s/log", dir);
    return 0;
}

static int drop_dir(void **state) {
    (void)state;
    remove(log_path);
    return rmdir(dir);
}

static void output_goes_to_the_log_and_its_tail_can_be_read(void **state) {
    (void)state;
    const char *argv[] = {"sh", "-c", "echo one; echo two >&2; echo three", NULL};
    sk_process p;
    sk_buf tail = {0};
    int status = -1;
    assert_int_equal(sk_process_start(&p, argv, NULL, log_path, NULL), SKIPPY_OK);
    assert_int_equal(sk_process_wait(&p, 10000, &status, NULL), SKIPPY_OK);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(p.pid, 0);
    sk_process_log_tail(&p, 2, &tail);
    assert_string_equal(tail.data, "two\nthree\n");
    sk_buf_clear(&tail);
    sk_process_log_tail(&p, 100, &tail);
    assert_string_equal(tail.data, "one\ntwo\nthree\n");
    sk_buf_free(&tail);
}

static void a_piped_child_is_asked_and_answers(void **state) {
    (void)state;
    const char *argv[] = {"sh", "-c", "while read x; do echo \"got $x\"; done; echo end >&2", NULL};
    sk_process p;
    sk_buf tail = {0};
    char answer[16] = "";
    int to = -1, from = -1, status = -1;
    assert_int_equal(sk_process_start_piped(&p, argv, log_path, &to, &from, NULL), SKIPPY_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(write(to, "7\n", 2), 2);
        assert_int_equal(read(from, answer, sizeof answer), 6);
        assert_memory_equal(answer, "got 7\n", 6);
    }
    close(to); /* the end of its input ends it */
    assert_int_equal(sk_process_wait(&p, 10000, &status, NULL), SKIPPY_OK);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(read(from, answer, sizeof answer), 0);
    close(from);
    sk_process_log_tail(&p, 5, &tail);
    assert_string_equal(tail.data, "end\n");
    sk_buf_free(&tail);
}

static void a_piped_program_that_is_not_there_leaves_no_pipes(void **state) {
    (void)state;
    const char *argv[] = {"./no-such-program", NULL};
    sk_process p;
    int to = 5, from = 5;
    assert_int_equal(sk_process_start_piped(&p, argv, log_path, &to, &from, NULL), SKIPPY_E_NOT_FOUND);
    assert_int_equal(to, -1);
    assert_int_equal(from, -1);
    assert_int_equal(sk_process_start_piped(&p, argv, "no-such-directory/log", &to, &from, NULL), SKIPPY_E_IO);
}

static void processor_time_grows_while_a_child_works(void **state) {
    (void)state;
    const char *argv[] = {"sh", "-c", "read x; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo; read x", NULL};
    sk_process p;
    char c;
    int to = -1, from = -1;
    assert_int_equal(sk_process_start_piped(&p, argv, log_path, &to, &from, NULL), SKIPPY_OK);
    const uint64_t before = sk_process_cpu_ns(&p);
    assert_int_equal(write(to, "\n", 1), 1);
    assert_int_equal(read(from, &c, 1), 1);
    assert_true(sk_process_cpu_ns(&p) > before);
    close(to);
    close(from);
    sk_process_stop(&p, 10000);
    assert_int_equal(sk_process_cpu_ns(&p), 0); /* nobody is there */
}

static void how_a_child_ended_is_remembered(void **state) {
    (void)state;
    const char *argv[] = {"sh", "-c", "exit 7", NULL};
    sk_process p;
    assert_int_equal(sk_process_start(&p, argv, NULL, log_path, NULL), SKIPPY_OK);
    assert_false(p.ended);
    assert_int_equal(sk_process_wait(&p, 10000, NULL, NULL), SKIPPY_OK);
    assert_true(p.ended && !p.forced);
    assert_true(WIFEXITED(p.status) && WEXITSTATUS(p.status) == 7);
}

static void a_server_gets_its_environment_and_a_file_for_its_output(void **state) {
    (void)state;
    static const char *const env[] = {"SAY=some words"};
    char out_path[160];
    char text[32] = "";
    snprintf(out_path, sizeof out_path, "%s/out", dir);
    const sk_launch l = {.program = "sh",
                         .subcommand = "-c",
                         .model = "echo $SAY", /* as sh -c -m 'echo $SAY' */
                         .lanes = 1,
                         .threads = 1,
                         .n_ctx = 1,
                         .env = env,
                         .n_env = 1,
                         .out_path = out_path,
                         .ready_timeout_ms = 10000};
    sk_process p;
    sk_buf command = {0};
    uint16_t port = 0;
    assert_int_equal(sk_launch_server(&l, log_path, &p, &port, &command, NULL), SKIPPY_E_RUNTIME);
    FILE *f = fopen(out_path, "re");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof text, f));
    fclose(f);
    assert_string_equal(text, "some words\n");
    assert_ptr_equal(strstr(command.data, "env SAY=some words sh -c -m echo $SAY"), command.data);
    remove(out_path);
    sk_buf_free(&command);
}

static void the_end_of_long_last_words_is_what_is_shown(void **state) {
    (void)state;
    const sk_launch l = {.program = "sh",
                         .subcommand = "-c",
                         .model = "printf 'begin %0700d the reason' 7 >&2",
                         .lanes = 1,
                         .threads = 1,
                         .n_ctx = 1,
                         .ready_timeout_ms = 10000};
    sk_process p;
    sk_buf command = {0};
    sk_err e = {0};
    uint16_t port = 0;
    assert_int_equal(sk_launch_server(&l, log_path, &p, &port, &command, &e), SKIPPY_E_RUNTIME);
    assert_null(strstr(e.text, "begin"));
    assert_non_null(strstr(e.text, "its last words: 000"));
    assert_string_equal(e.text + strlen(e.text) - strlen("7 the reason"), "7 the reason");
    sk_buf_free(&command);
}

static void a_server_gets_the_cache_directory_that_it_is_told(void **state) {
    (void)state;
    const sk_launch l = {.program = "no-such-program",
                         .model = "m",
                         .lanes = 1,
                         .threads = 1,
                         .n_ctx = 1,
                         .flags = {"-a", "-b c", "-d"},
                         .cache_home = "some where",
                         .ready_timeout_ms = 10000};
    sk_process p;
    sk_buf command = {0};
    sk_err e = {0};
    uint16_t port = 0;
    assert_int_equal(sk_launch_server(&l, log_path, &p, &port, &command, &e), SKIPPY_E_RUNTIME);
    assert_ptr_equal(strstr(command.data, "env XDG_CACHE_HOME=some where no-such-program -m m -c 1"), command.data);
    assert_non_null(strstr(command.data, " -a -b c -d"));
    assert_non_null(strstr(e.text, "no-such-program"));
    sk_buf_free(&command);
}

static void a_program_that_is_not_there_is_an_error_in_words(void **state) {
    (void)state;
    const char *argv[] = {"./no-such-program", NULL};
    sk_process p;
    sk_err e = {0};
    assert_int_equal(sk_process_start(&p, argv, NULL, log_path, &e), SKIPPY_E_NOT_FOUND);
    assert_string_equal(e.text, "cannot run './no-such-program': No such file or directory");
    assert_int_equal(p.pid, 0);
}

static void a_log_that_cannot_be_written_is_an_error(void **state) {
    (void)state;
    const char *argv[] = {"true", NULL};
    sk_process p;
    sk_err e = {0};
    assert_int_equal(sk_process_start(&p, argv, NULL, "no-such-directory/log", &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, "cannot write 'no-such-directory/log'"));
}

/* True until the process has ended, even if nobody has collected its status yet. */
static bool runs(pid_t pid) {
    char path[64];
    char text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f) {
        return false;
    }
    const size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' && name_end[2] != 'Z' && name_end[2] != 'X';
}

static void stop_ends_the_whole_group(void **state) {
    (void)state;
    /* The shell's child would outlive a signal to the shell alone. */
    const char *argv[] = {"sh", "-c", "sleep 1000 & echo $!; wait", NULL};
    sk_process p;
    sk_buf text = {0};
    assert_int_equal(sk_process_start(&p, argv, NULL, log_path, NULL), SKIPPY_OK);
    while (!text.len) {
        sk_process_log_tail(&p, 1, &text);
    }
    const pid_t inner = (pid_t)strtol(text.data, NULL, 10);
    assert_true(inner > 1);
    assert_int_equal(kill(inner, 0), 0);
    assert_true(sk_process_stop(&p, 10000));
    assert_false(sk_process_alive(&p, NULL));
    while (runs(inner)) { /* the signal was sent; the test's time limit ends this loop if it was not */
    }
    sk_buf_free(&text);
}

static void a_child_that_ignores_sigterm_is_killed(void **state) {
    (void)state;
    const char *argv[] = {"sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done", NULL};
    sk_process p;
    sk_buf text = {0};
    assert_int_equal(sk_process_start(&p, argv, NULL, log_path, NULL), SKIPPY_OK);
    while (!text.len) {
        sk_process_log_tail(&p, 1, &text);
    }
    assert_false(sk_process_stop(&p, 50));
    assert_int_equal(p.pid, 0);
    assert_true(p.ended && p.forced);
    assert_true(WIFSIGNALED(p.status) && WTERMSIG(p.status) == SIGKILL);
    sk_buf_free(&text);
}

static void waiting_has_a_deadline(void **state) {
    (void)state;
    const char *argv[] = {"sleep", "1000", NULL};
    sk_process p;
    assert_int_equal(sk_process_start(&p, argv, NULL, log_path, NULL), SKIPPY_OK);
    assert_int_equal(sk_process_wait(&p, 20, NULL, NULL), SKIPPY_E_TIMEOUT);
    assert_true(sk_process_stop(&p, 10000));
}

static void memory_is_read_from_the_kernels_text(void **state) {
    (void)state;
    sk_process_memory m;
    sk_process_memory_parse("Name:\tx\nVmPeak:\t   99 kB\nVmHWM:\t   1234 kB\nVmRSS:\t   1000 kB\nRssAnon:\t  600 kB\n"
                            "RssFile:\t  390 kB\nRssShmem:\t  10 kB\n",
                            &m);
    assert_int_equal(m.peak_rss, 1234);
    assert_int_equal(m.rss, 1000);
    assert_int_equal(m.anon, 600);
    assert_int_equal(m.file, 390);
    assert_int_equal(m.shmem, 10);
    sk_process_memory_parse("", &m);
    assert_int_equal(m.peak_rss, 0);
    const sk_process self = {.pid = getpid()};
    assert_int_equal(sk_process_memory_read(&self, &m), SKIPPY_OK);
    assert_true(m.rss > 0 && m.peak_rss >= m.rss);
    const sk_process none = {0};
    assert_int_equal(sk_process_memory_read(&none, &m), SKIPPY_E_NOT_FOUND);
}

static void a_server_that_ends_at_once_shows_its_last_words(void **state) {
    (void)state;
    const sk_launch l = {.program = "sh",
                         .subcommand = "no-such-script",
                         .model = "m.gguf",
                         .n_ctx = 512,
                         .threads = 2,
                         .lanes = 3,
                         .flags = {NULL, " --one  two "},
                         .ready_timeout_ms = 10000};
    sk_process p;
    sk_buf command = {0};
    sk_err e = {0};
    char want[256];
    uint16_t port = 0;
    assert_int_equal(sk_launch_server(&l, log_path, &p, &port, &command, &e), SKIPPY_E_RUNTIME);
    assert_non_null(strstr(e.text, "'sh' ended before it was ready; its last words: "));
    assert_non_null(strstr(e.text, "no-such-script"));
    snprintf(want, sizeof want, "sh no-such-script -m m.gguf -c 512 -t 2 -np 3 --host 127.0.0.1 --port %u --one two",
             (unsigned)port);
    assert_string_equal(command.data, want);
    assert_int_equal(p.pid, 0);
    sk_buf_free(&command);
}

static void a_server_that_never_answers_is_ended_after_its_time(void **state) {
    (void)state;
    char script[160];
    snprintf(script, sizeof script, "%s/server", dir);
    FILE *f = fopen(script, "we");
    assert_non_null(f);
    fputs("#!/bin/sh\nexec sleep 1000\n", f);
    fclose(f);
    const sk_launch l = {.program = "sh",
                         .subcommand = script,
                         .model = "m",
                         .n_ctx = 1,
                         .threads = 1,
                         .lanes = 1,
                         .ready_timeout_ms = 60};
    sk_process p;
    sk_buf command = {0};
    sk_err e = {0};
    uint16_t port = 0;
    assert_int_equal(sk_launch_server(&l, log_path, &p, &port, &command, &e), SKIPPY_E_TIMEOUT);
    assert_int_equal(p.pid, 0);
    remove(script);
    sk_buf_free(&command);
}

static void too_many_flags_are_refused(void **state) {
    (void)state;
    char flags[3 * 200 + 1] = "";
    for (size_t i = 0; i < 200; i++) {
        memcpy(flags + 3 * i, "-x ", 3);
    }
    const sk_launch l = {.program = "true",
                         .model = "m",
                         .n_ctx = 1,
                         .threads = 1,
                         .lanes = 1,
                         .flags = {flags, NULL},
                         .ready_timeout_ms = 60};
    sk_process p;
    sk_buf command = {0};
    sk_err e = {0};
    uint16_t port = 0;
    assert_int_equal(sk_launch_server(&l, log_path, &p, &port, &command, &e), SKIPPY_E_INVALID);
    sk_buf_free(&command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_goes_to_the_log_and_its_tail_can_be_read),
        cmocka_unit_test(a_piped_child_is_asked_and_answers),
        cmocka_unit_test(a_piped_program_that_is_not_there_leaves_no_pipes),
        cmocka_unit_test(processor_time_grows_while_a_child_works),
        cmocka_unit_test(how_a_child_ended_is_remembered),
        cmocka_unit_test(a_server_gets_its_environment_and_a_file_for_its_output),
        cmocka_unit_test(the_end_of_long_last_words_is_what_is_shown),
        cmocka_unit_test(a_server_gets_the_cache_directory_that_it_is_told),
        cmocka_unit_test(a_program_that_is_not_there_is_an_error_in_words),
        cmocka_unit_test(a_log_that_cannot_be_written_is_an_error),
        cmocka_unit_test(stop_ends_the_whole_group),
        cmocka_unit_test(a_child_that_ignores_sigterm_is_killed),
        cmocka_unit_test(waiting_has_a_deadline),
        cmocka_unit_test(memory_is_read_from_the_kernels_text),
        cmocka_unit_test(a_server_that_ends_at_once_shows_its_last_words),
        cmocka_unit_test(a_server_that_never_answers_is_ended_after_its_time),
        cmocka_unit_test(too_many_flags_are_refused),
    };
    return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
