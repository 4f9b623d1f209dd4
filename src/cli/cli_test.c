/* The program as people start it: exit codes and words, and one whole life of `skippy serve` on a generated model. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "server/raw_client.h"

#define MODEL "cli-test-model.gguf"

static char program[1024];

static int find_program(void **state) {
    (void)state;
    const char *dir = getenv("SKIPPY_BUILD_DIR");
    if (!dir) return -1;
    snprintf(program, sizeof program, "%s/skippy", dir);
    return access(program, X_OK);
}

/* Starts the program; its standard output and error come out of *out. */
static pid_t start(const char *const *args, int *out) {
    const char *argv[32] = {program};
    int pipes[2];
    for (size_t i = 0; args[i]; i++) argv[i + 1] = args[i];
    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(pipes[1], STDOUT_FILENO);
        dup2(pipes[1], STDERR_FILENO);
        close(pipes[0]);
        close(pipes[1]);
        execv(program, (char *const *)argv);
        _exit(127);
    }
    close(pipes[1]);
    *out = pipes[0];
    return pid;
}

static int exit_code(pid_t pid) {
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void read_all(int fd, sk_buf *text) {
    char part[4096];
    ssize_t n = 0;
    while ((n = read(fd, part, sizeof part)) > 0) sk_buf_add(text, part, (size_t)n);
    close(fd);
}

/* Runs to the end; the output must hold `expected`. Returns the exit code. */
static int run(const char *const *args, const char *expected) {
    sk_buf text = {0};
    int out = -1;
    pid_t pid = start(args, &out);
    read_all(out, &text);
    int code = exit_code(pid);
    if (!text.data || !strstr(text.data, expected))
        fail_msg("'%s' is not in: %s", expected, text.data ? text.data : "");
    sk_buf_free(&text);
    return code;
}

#define RUN(expected, ...) run((const char *const[]){__VA_ARGS__, NULL}, expected)

static void the_program_explains_itself(void **state) {
    (void)state;
    static const char *const nothing[] = {NULL};
    assert_int_equal(RUN("serve", "--help"), 0);
    assert_int_equal(RUN("Usage: skippy serve", "help", "serve"), 0);
    assert_int_equal(RUN("Usage: skippy serve", "serve", "--help"), 0);
    assert_int_equal(RUN("skippy ", "--version"), 0);
    assert_int_equal(RUN("qwen3", "families"), 0);
    assert_int_equal(RUN("\"arch\":\"llama\"", "families", "--json"), 0);
    assert_int_equal(run(nothing, "Usage: skippy"), 2);
}

static void wrong_usage_ends_with_code_2_and_words(void **state) {
    (void)state;
    assert_int_equal(RUN("there is no command 'srve'", "srve"), 2);
    assert_int_equal(RUN("there is no command 'srve'", "help", "srve"), 2);
    assert_int_equal(RUN("skippy serve: which model?", "serve"), 2);
    assert_int_equal(RUN("--port needs a whole number from 0 to 65535, not 'http'", "serve", "--port", "http"), 2);
    assert_int_equal(RUN("unknown option '--jsn'", "families", "--jsn"), 2);
}

static void what_cannot_be_served_ends_with_code_1_and_words(void **state) {
    (void)state;
    assert_int_equal(RUN("there-is-no-such.gguf", "serve", "-m", "there-is-no-such.gguf", "--port", "0"), 1);
    assert_int_equal(RUN("--allow-anonymous", "serve", "-m", MODEL, "--host", "0.0.0.0", "--port", "0"), 1);
}

/* Reads lines until the start-up facts come; returns the port they name. */
static uint16_t read_port(int fd) {
    char line[8192];
    FILE *f = fdopen(dup(fd), "r");
    long port = 0;
    while (port == 0 && fgets(line, sizeof line, f)) {
        json_t *facts = json_loads(line, 0, NULL);
        const char *url = json_string_value(json_object_get(facts, "url"));
        if (url) port = strtol(strrchr(url, ':') + 1, NULL, 10);
        json_decref(facts);
    }
    fclose(f);
    assert_true(port > 0);
    return (uint16_t)port;
}

static void complete(int fd, const char *expected_header) {
    sk_buf in = {0};
    raw_request(
        fd, "POST", "/completion", NULL,
        "{\"prompt\":\"one two three four five six seven eight nine ten eleven twelve one two three four five six\","
        "\"n_predict\":1,\"temperature\":0}");
    assert_int_equal(raw_read_reply(fd, &in, NULL), 200);
    assert_non_null(strstr(in.data, expected_header));
    sk_buf_free(&in);
}

static void a_generated_model_is_served_until_sigterm(void **state) {
    (void)state;
    static const char *const serve[] = {"serve", "-m", MODEL, "--port", "0",      "-c", "512",
                                        "-np",   "2",  "-t",  "1",      "--json", NULL};
    assert_int_equal(RUN(MODEL, "synth", "--family", "llama", "--out", MODEL, "--force"), 0);
    int out = -1;
    pid_t pid = start(serve, &out);
    int fd = raw_connect(read_port(out));
    complete(fd, "X-Skippy-Cache: miss");
    complete(fd, "X-Skippy-Cache: hit=resident");
    kill(pid, SIGTERM);
    assert_int_equal(exit_code(pid), 0);
    close(fd);
    close(out);
}

static void a_running_stream_is_told_when_the_server_stops(void **state) {
    (void)state;
    static const char *const serve[] = {"serve", "-m",     MODEL, "--port", "0", "-c",
                                        "4096",  "-np",    "1",   "-t",     "1", "--shutdown-timeout",
                                        "0",     "--json", NULL};
    sk_buf in = {0};
    int out = -1;
    pid_t pid = start(serve, &out);
    int fd = raw_connect(read_port(out));
    /* Sixteen long answers on one lane: far from done when the signal comes, however busy the machine is. */
    raw_request(fd, "POST", "/v1/completions", NULL,
                "{\"prompt\":\"one two three\",\"n\":16,\"max_tokens\":3000,\"ignore_eos\":true,\"stream\":true}");
    assert_true(raw_read_until(fd, &in, "data: "));
    kill(pid, SIGTERM);
    raw_read_to_end(fd, &in);
    assert_non_null(strstr(in.data, "the server is shutting down"));
    assert_int_equal(exit_code(pid), 0);
    sk_buf_free(&in);
    close(fd);
    close(out);
}

static int remove_model(void **state) {
    (void)state;
    unlink(MODEL);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_explains_itself),
        cmocka_unit_test(wrong_usage_ends_with_code_2_and_words),
        cmocka_unit_test(what_cannot_be_served_ends_with_code_1_and_words),
        cmocka_unit_test(a_generated_model_is_served_until_sigterm),
        cmocka_unit_test(a_running_stream_is_told_when_the_server_stops),
    };
    return cmocka_run_group_tests(tests, find_program, remove_model);
}
