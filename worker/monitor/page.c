/* SPDX-License-Identifier: MIT */
/* Embeds the files of the dashboard. */
#include "worker/monitor/page.h"

#include <stdint.h>

#define EMBED(name, file)                                                      \
    __asm__(                                                                   \
        ".pushsection .rodata\n"                                               \
        ".balign 8\n"                                                          \
        ".global " #name "_len\n"                                              \
        ".global " #name "_text\n" #name "_len: .quad " #name "_end - " #name  \
        "_text\n" #name "_text: .incbin \"" file "\"\n" #name "_end:\n"        \
        ".popsection\n");                                                      \
    extern const uint64_t name##_len __attribute__((visibility("hidden")));    \
    extern const char name##_text[] __attribute__((visibility("hidden")))

EMBED(page_html, "worker/monitor/dashboard.html");
EMBED(page_css, "worker/monitor/dashboard.css");
EMBED(page_js, "worker/monitor/dashboard.js");
EMBED(page_svg, "worker/monitor/dashboard.svg");

void page_files(struct page_file to[PAGE_FILES])
{
    to[0] = (struct page_file){
        "/", "text/html; charset=utf-8", {page_html_text, page_html_len}};
    to[1] = (struct page_file){"/dashboard.css", "text/css; charset=utf-8",
        {page_css_text, page_css_len}};
    to[2] = (struct page_file){"/dashboard.js",
        "text/javascript; charset=utf-8", {page_js_text, page_js_len}};
    to[3] = (struct page_file){
        "/dashboard.svg", "image/svg+xml", {page_svg_text, page_svg_len}};
}
