// A library that a test preloads into the daemon. User accounts are looked up in the file that
// CONCORD_TEST_ACCOUNTS names, in the format of passwd(5), and nowhere else. It is compiled by
// Tests/Support/TestAccounts.swift.

#define _GNU_SOURCE
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int look(const char *name, uid_t uid, struct passwd *record, char *buffer, size_t size,
                struct passwd **found) {
    *found = NULL;
    const char *path = getenv("CONCORD_TEST_ACCOUNTS");
    FILE *file = path ? fopen(path, "re") : NULL;
    if (!file) return 0;
    while (!fgetpwent_r(file, record, buffer, size, found)) {
        if (name ? !strcmp(record->pw_name, name) : record->pw_uid == uid) break;
        *found = NULL;
    }
    fclose(file);
    return 0;
}

int getpwnam_r(const char *name, struct passwd *record, char *buffer, size_t size,
               struct passwd **found) {
    return look(name, 0, record, buffer, size, found);
}

int getpwuid_r(uid_t uid, struct passwd *record, char *buffer, size_t size,
               struct passwd **found) {
    return look(NULL, uid, record, buffer, size, found);
}
