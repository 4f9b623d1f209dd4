/* Test support: removes what a test left behind. Not part of the product. */
#ifndef SKIPPY_BASE_TEST_FOLDER_H
#define SKIPPY_BASE_TEST_FOLDER_H

#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>

static inline int test_remove_one(const char *path, const struct stat *st, int type, struct FTW *where) {
    (void)st;
    (void)type;
    (void)where;
    return remove(path);
}

/* Removes a folder and everything below it, without following links. 0, or what went wrong first. */
static inline int test_remove_tree(const char *path) {
    return nftw(path, test_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
