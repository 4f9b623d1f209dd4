#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/test_folder.h"
#include "bench/family/html.h"
#include "bench/family/html_markdown.h"
#include "bench/family/html_svg.h"
#include "bench/family/html_text.h"
#include "bench/report.h"

/* ---- Markdown ---- */

static void assert_html(const char *markdown, const char *want) {
    sk_html_document d = {0};
    sk_html_markdown(markdown, &d);
    assert_false(d.body.failed);
    assert_string_equal(d.body.data ? d.body.data : "", want);
    sk_html_document_free(&d);
}

static void headings_have_ids_of_their_own(void **state) {
    (void)state;
    assert_html(
        "# Use cases, real\n### Use cases, real\n",
        "<h1 id=\"s1-use-cases-real\">Use cases, real</h1>\n<h3 id=\"s2-use-cases-real\">Use cases, real</h3>\n");
    assert_html("#none\n####### seven\n", "<p>#none\n####### seven</p>\n");
}

static void headings_of_level_two_and_three_are_in_the_contents(void **state) {
    (void)state;
    sk_html_document d = {0};
    sk_html_markdown("# A\n## B <b>\n### C\n#### D\n", &d);
    assert_string_equal(d.contents.data, "<li class=\"level2\"><a href=\"#s2-b-b\">B &lt;b&gt;</a></li>\n"
                                         "<li class=\"level3\"><a href=\"#s3-c\">C</a></li>\n");
    sk_html_document_free(&d);
}

static void lines_without_a_gap_are_one_paragraph(void **state) {
    (void)state;
    assert_html("one\ntwo\n\n  three", "<p>one\ntwo</p>\n<p>three</p>\n");
    assert_html("", "");
    assert_html("\n\n", "");
    assert_html("text\r\n# Head\r\n", "<p>text</p>\n<h1 id=\"s1-head\">Head</h1>\n");
}

static void a_table_has_head_body_and_columns_to_the_right(void **state) {
    (void)state;
    assert_html(
        "| Family | ms |\n| :-- | --: |\n| Llama | 1.5 |\n| GLM4 |\n\nafter\n",
        "<div class=\"wide\" tabindex=\"0\"><table>\n<thead><tr><th>Family</th><th class=\"right\">ms</th></tr>\n"
        "</thead>\n<tbody>\n<tr><td>Llama</td><td class=\"right\">1.5</td></tr>\n<tr><td>GLM4</td></tr>\n"
        "</tbody></table></div>\n<p>after</p>\n");
}

static void faster_and_slower_cells_are_marked(void **state) {
    (void)state;
    sk_html_document d = {0};
    sk_html_markdown("| a | b | c |\n|---|---:|---|\n| **1.95x faster** | 0.80x (slower) | parity |\n", &d);
    assert_non_null(strstr(d.body.data, "<td class=\"faster\"><strong>1.95x faster</strong></td>"));
    assert_non_null(strstr(d.body.data, "<td class=\"right slower\">0.80x (slower)</td><td>parity</td>"));
    sk_html_document_free(&d);
}

static void bars_without_a_divider_are_text(void **state) {
    (void)state;
    assert_html("| a | b |\n| c | d |\n", "<p>| a | b |</p>\n<p>| c | d |</p>\n");
    assert_html("| a |", "<p>| a |</p>\n");
    assert_html("|", "<p>|</p>\n");
}

static void a_row_with_too_many_cells_is_cut(void **state) {
    (void)state;
    sk_buf md = {0};
    sk_html_document d = {0};
    for (int i = 0; i < 100; i++) {
        sk_buf_str(&md, "|h");
    }
    sk_buf_str(&md, "\n|---|\n");
    sk_html_markdown(md.data, &d);
    size_t n = 0;
    for (const char *p = d.body.data; (p = strstr(p, "<th>")); p++) {
        n++;
    }
    assert_int_equal(n, 64);
    sk_html_document_free(&d);
    sk_buf_free(&md);
}

static void lists_end_with_their_items(void **state) {
    (void)state;
    assert_html("- a\n  more\n- b\n\ntext\n", "<ul>\n<li>a\nmore</li>\n<li>b</li>\n</ul>\n<p>text</p>\n");
    assert_html("1. a\n2. b\n- c\n", "<ol>\n<li>a</li>\n<li>b</li>\n</ol>\n<ul>\n<li>c</li>\n</ul>\n");
    assert_html("* a\n1.5x is no item\n", "<ul>\n<li>a\n1.5x is no item</li>\n</ul>\n");
}

static void a_rule_and_a_block_of_code(void **state) {
    (void)state;
    assert_html("---\n```sh\na < b\n\n| c\n```\nend", "<hr>\n<pre class=\"wide\" tabindex=\"0\"><code>a &lt; b\n\n| c\n"
                                                      "</code></pre>\n<p>end</p>\n");
    assert_html("```\nnever closed", "<pre class=\"wide\" tabindex=\"0\"><code>never closed\n</code></pre>\n");
}

static void bold_code_and_links_within_a_line(void **state) {
    (void)state;
    assert_html("a **b `c` d** `**e**` [f](docs/x.md#y) [g](https://example.org/?a=1&b=2)",
                "<p>a <strong>b <code>c</code> d</strong> <code>**e**</code> <a href=\"docs/x.md#y\">f</a> "
                "<a href=\"https://example.org/?a=1&amp;b=2\">g</a></p>\n");
}

static void marks_that_are_not_closed_are_text(void **state) {
    (void)state;
    assert_html("**a `b [c](d [e] Llama*", "<p>**a `b [c](d [e] Llama*</p>\n");
    assert_html("a `` b", "<p>a `` b</p>\n");
    assert_html("**** a", "<p>**** a</p>\n");
}

/* Code of n letters. */
static void add_code(sk_buf *b, size_t n) {
    sk_buf_str(b, "`");
    for (size_t i = 0; i < n; i++) {
        sk_buf_str(b, "a");
    }
    sk_buf_str(b, "`");
}

static void a_piece_that_ends_far_away_is_text(void **state) {
    (void)state;
    sk_buf text = {0}, out = {0};
    add_code(&text, 4000);
    sk_html_inline(&out, text.data, text.len);
    assert_non_null(strstr(out.data, "<code>a"));
    sk_buf_clear(&text);
    sk_buf_clear(&out);
    add_code(&text, 5000);
    sk_html_inline(&out, text.data, text.len);
    assert_string_equal(out.data, text.data);
    sk_buf_free(&text);
    sk_buf_free(&out);
}

static void nothing_from_a_row_becomes_a_tag_or_a_script(void **state) {
    (void)state;
    assert_html("<script>x</script> & \"q\" 'r'\n",
                "<p>&lt;script&gt;x&lt;/script&gt; &amp; &quot;q&quot; &#39;r&#39;</p>\n");
    assert_html("[a](javascript:alert(1))", "<p>[a](javascript:alert(1))</p>\n");
    assert_html("[a](x\"onclick=y)", "<p><a href=\"x&quot;onclick=y\">a</a></p>\n");
    assert_html("[<b>](u)", "<p><a href=\"u\">&lt;b&gt;</a></p>\n");
    assert_html("`<i>` **<i>**", "<p><code>&lt;i&gt;</code> <strong>&lt;i&gt;</strong></p>\n");
    assert_html("# <img src=x>", "<h1 id=\"s1-img-src-x\">&lt;img src=x&gt;</h1>\n");
}

static void addresses_with_other_schemes_are_refused(void **state) {
    (void)state;
    static const char *const good[] = {"#a", "a/b.md", "../x", "http://h/p:1", "https://h"};
    static const char *const bad[] = {"", "javascript:x", "data:text/html,x", "JAVASCRIPT:x", "java\tscript", " x"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(sk_html_address_ok(good[i], strlen(good[i])));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(sk_html_address_ok(bad[i], strlen(bad[i])));
    }
}

/* ---- SVG ---- */

static const char SVG[] = "<?xml version=\"1.0\"?>\n<svg \n width=\"8\" viewBox=\"0 0 8 8\">\n<title>Gnuplot</title>\n"
                          "<desc>by</desc><g id=\"gnuplot_plot_1\" ><title>tip</title></g><circle id='gpDot'/>"
                          "<use xlink:href='#gpDot'/><rect fill='url(#gpPat1)' width='2'/></svg>\n";

static void ids_and_references_get_the_prefix(void **state) {
    (void)state;
    sk_buf out = {0};
    assert_int_equal(sk_html_svg(SVG, "hit-rate", "Rate & \"x\"", &out, NULL), SKIPPY_OK);
    assert_string_equal(out.data, "<svg role=\"img\" aria-label=\"Rate &amp; &quot;x&quot;\" \n width=\"8\" "
                                  "viewBox=\"0 0 8 8\">\n\n<g id=\"hit-rate-gnuplot_plot_1\" ></g>"
                                  "<circle id='hit-rate-gpDot'/><use xlink:href='#hit-rate-gpDot'/>"
                                  "<rect fill='url(#hit-rate-gpPat1)' width='2'/></svg>\n");
    sk_buf_free(&out);
}

static void what_is_no_svg_or_has_a_script_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"",
                                      "<html></html>",
                                      "<svg>",
                                      "<svg><script>x</script></svg>",
                                      "<svg><a href='javascript:x'/></svg>",
                                      "<svg><foreignObject/></svg>"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        sk_buf out = {0};
        sk_err e = {0};
        assert_int_equal(sk_html_svg(bad[i], "latency", "x", &out, &e), SKIPPY_E_INVALID);
        assert_non_null(strstr(e.text, "'latency'"));
        assert_int_equal(out.len, 0);
        sk_buf_free(&out);
    }
}

/* ---- page ---- */

typedef struct fixture {
    char folder[64];
    sk_plot plots[2];
} fixture;

static int set_up(void **state) {
    static fixture f;
    f = (fixture){.folder = "/tmp/skippy-html-XXXXXX",
                  .plots = {{"speedup", "First <plot>", "How to read & why", ""}, {"agent", "Second", "", ""}}};
    assert_non_null(mkdtemp(f.folder));
    for (size_t i = 0; i < 2; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s.svg", f.folder, f.plots[i].name);
        memcpy(f.plots[i].path, path, sizeof path);
        assert_int_equal(sk_report_write_file(f.plots[i].path, SVG, sizeof SVG - 1, NULL), SKIPPY_OK);
    }
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    const fixture *f = *state;
    return test_remove_tree(f->folder);
}

static void the_page_has_introduction_contents_plots_and_tables_in_this_order(void **state) {
    const fixture *f = *state;
    sk_buf out = {0};
    static const char *const order[] = {"<title>T &lt;1&gt;</title>",
                                        "<style>",
                                        "<h1 id=\"s1-report\">Report</h1>",
                                        "<p>Intro.</p>",
                                        "<nav ",
                                        "<a href=\"#s2-plots\">Plots</a>",
                                        "<a href=\"#s5-rows\">Rows</a>",
                                        "<h2 id=\"s2-plots\">",
                                        "<h3 id=\"s3-first-plot\">First &lt;plot&gt;</h3>",
                                        "speedup-gpDot",
                                        "<figcaption>How to read &amp; why</figcaption>",
                                        "<h3 id=\"s4-second\">Second</h3>",
                                        "agent-gpDot",
                                        "<h2 id=\"s5-rows\">Rows</h2>",
                                        "<table>",
                                        "</html>\n"};
    assert_int_equal(
        sk_html_page("T <1>", "# Report\n\nIntro.\n\n## Rows\n\n| a |\n|---|\n| b |\n", f->plots, 2, &out, NULL),
        SKIPPY_OK);
    const char *at = out.data;
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        at = strstr(at, order[i]);
        assert_non_null(at);
    }
    sk_buf_free(&out);
}

static void the_page_loads_nothing_and_runs_nothing(void **state) {
    const fixture *f = *state;
    static const char *const outside[] = {"<script", "<link", "<img", "<iframe", "@import", "src=", "http"};
    sk_buf out = {0};
    assert_int_equal(sk_html_page("T", "# A\n", f->plots, 2, &out, NULL), SKIPPY_OK);
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        assert_null(strstr(out.data, outside[i]));
    }
    assert_null(strstr(out.data, f->folder));
    sk_buf_free(&out);
}

static void a_text_without_a_title_gets_the_pages_title(void **state) {
    (void)state;
    sk_buf out = {0};
    assert_int_equal(sk_html_page("My page", "text\n", NULL, 0, &out, NULL), SKIPPY_OK);
    assert_non_null(strstr(out.data, "<h1 id=\"s1-my-page\">My page</h1>\n<p>text</p>\n"));
    assert_null(strstr(out.data, "<nav"));
    sk_buf_free(&out);
    assert_int_equal(sk_html_page("My page", "", NULL, 0, &out, NULL), SKIPPY_OK);
    assert_non_null(strstr(out.data, "<h1 id=\"s1-my-page\">"));
    sk_buf_free(&out);
}

static void a_plot_that_cannot_be_read_is_an_error_and_no_page(void **state) {
    fixture *f = *state;
    sk_buf out = {0};
    sk_err e = {0};
    remove(f->plots[1].path);
    assert_int_equal(sk_html_page("T", "# A\n", f->plots, 2, &out, &e), SKIPPY_E_IO);
    assert_non_null(strstr(e.text, f->plots[1].path));
    assert_int_equal(out.len, 0);
    snprintf(f->plots[1].path, sizeof f->plots[1].path, "%s", f->folder);
    assert_int_equal(sk_html_page("T", "# A\n", f->plots, 2, &out, &e), SKIPPY_E_IO);
    assert_int_equal(out.len, 0);
    sk_buf_free(&out);
}

static void a_plot_that_is_no_svg_is_an_error(void **state) {
    const fixture *f = *state;
    sk_buf out = {0};
    sk_err e = {0};
    assert_int_equal(sk_report_write_file(f->plots[0].path, "", 0, NULL), SKIPPY_OK);
    assert_int_equal(sk_html_page("T", "# A\n", f->plots, 2, &out, &e), SKIPPY_E_INVALID);
    assert_int_equal(out.len, 0);
    sk_buf_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headings_have_ids_of_their_own),
        cmocka_unit_test(headings_of_level_two_and_three_are_in_the_contents),
        cmocka_unit_test(lines_without_a_gap_are_one_paragraph),
        cmocka_unit_test(a_table_has_head_body_and_columns_to_the_right),
        cmocka_unit_test(faster_and_slower_cells_are_marked),
        cmocka_unit_test(bars_without_a_divider_are_text),
        cmocka_unit_test(a_row_with_too_many_cells_is_cut),
        cmocka_unit_test(lists_end_with_their_items),
        cmocka_unit_test(a_rule_and_a_block_of_code),
        cmocka_unit_test(bold_code_and_links_within_a_line),
        cmocka_unit_test(marks_that_are_not_closed_are_text),
        cmocka_unit_test(a_piece_that_ends_far_away_is_text),
        cmocka_unit_test(nothing_from_a_row_becomes_a_tag_or_a_script),
        cmocka_unit_test(addresses_with_other_schemes_are_refused),
        cmocka_unit_test(ids_and_references_get_the_prefix),
        cmocka_unit_test(what_is_no_svg_or_has_a_script_is_refused),
        cmocka_unit_test_setup_teardown(the_page_has_introduction_contents_plots_and_tables_in_this_order, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_page_loads_nothing_and_runs_nothing, set_up, tear_down),
        cmocka_unit_test(a_text_without_a_title_gets_the_pages_title),
        cmocka_unit_test_setup_teardown(a_plot_that_cannot_be_read_is_an_error_and_no_page, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_plot_that_is_no_svg_is_an_error, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
