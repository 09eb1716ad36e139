// PostgreSQL's client library libpq, which is loaded when it is first needed. `concord` is one
// program for mounts and hubs. If it were linked with libpq, each mount would need libpq, and load
// it together with Kerberos, LDAP and GnuTLS. Only libpq's header is needed for the build.
#pragma once

#if __has_include(<postgresql/libpq-fe.h>)
#include <postgresql/libpq-fe.h>
#elif __has_include(<libpq-fe.h>)
#include <libpq-fe.h>
#else
#error "libpq-fe.h is missing: install libpq-dev, or run make deps."
#endif

#define CP_FUNCTIONS(X) \
    X(PQconnectdbParams) X(PQfinish) X(PQstatus) X(PQerrorMessage) X(PQsocket) \
    X(PQconninfoParse) X(PQconninfoFree) X(PQfreemem) X(PQsetNoticeProcessor) \
    X(PQsetnonblocking) X(PQsendQuery) X(PQsendPrepare) X(PQsendQueryPrepared) X(PQflush) \
    X(PQconsumeInput) X(PQisBusy) X(PQgetResult) X(PQclear) X(PQresultStatus) \
    X(PQresultErrorField) X(PQcmdStatus) X(PQcmdTuples) X(PQntuples) X(PQnfields) X(PQftype) \
    X(PQgetisnull) X(PQgetvalue) X(PQgetlength) X(PQnotifies) X(PQenterPipelineMode) \
    X(PQexitPipelineMode) X(PQpipelineSync)

/// The functions of libpq with the types that its header declares.
struct cp_library {
#define CP_MEMBER(name) __typeof__(&name) name;
    CP_FUNCTIONS(CP_MEMBER)
#undef CP_MEMBER
};

/// Loads libpq and sets all members. Returns 0, or -1; then `reason` is a text of the dynamic
/// linker, which is valid until the calling thread loads something else.
int cp_load(struct cp_library *library, const char **reason);

/// Ignores the server's notices, which libpq would print on standard error.
void cp_ignore_notice(void *context, const char *message);
