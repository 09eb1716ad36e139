// The system's SQLite with its session extension, which Debian builds in.
#define SQLITE_ENABLE_SESSION 1
#define SQLITE_ENABLE_PREUPDATE_HOOK 1
#include <string.h>
#include <sqlite3.h>

/// For a database that others have made: nothing in its schema runs by itself.
static inline int cs_guard(sqlite3 *db) {
    int code = sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, (int *)0);
    if (code == SQLITE_OK) code = sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_FKEY, 0, (int *)0);
    if (code == SQLITE_OK) code = sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, (int *)0);
    if (code == SQLITE_OK) code = sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)0);
    return code;
}

static inline int cs_bytes(void *context, int n, const void *a, int m, const void *b) {
    (void)context;
    int order = memcmp(a, b, (size_t)(n < m ? n : m));
    return order ? order : n - m;
}

static inline void cs_any_collation(void *context, sqlite3 *db, int encoding, const char *name) {
    (void)context;
    sqlite3_create_collation(db, name, encoding, 0, cs_bytes);
}

/// Compares text by its bytes whatever collation a column has. Only for a connection that writes
/// nothing and looks nothing up by an index of such a column.
static inline int cs_compare_bytes(sqlite3 *db) {
    int code = sqlite3_create_collation(db, "NOCASE", SQLITE_UTF8, 0, cs_bytes);
    if (code == SQLITE_OK) code = sqlite3_create_collation(db, "RTRIM", SQLITE_UTF8, 0, cs_bytes);
    if (code == SQLITE_OK) code = sqlite3_collation_needed(db, 0, cs_any_collation);
    return code;
}

static inline int cs_bind_text(sqlite3_stmt *s, int at, const void *bytes, int n) {
    return sqlite3_bind_text(s, at, (const char *)bytes, n, SQLITE_TRANSIENT);
}

/// Of no bytes: an empty blob, not NULL.
static inline int cs_bind_blob(sqlite3_stmt *s, int at, const void *bytes, int n) {
    return sqlite3_bind_blob(s, at, n ? bytes : (const void *)"", n, SQLITE_TRANSIENT);
}
