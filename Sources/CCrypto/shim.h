#include <stddef.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <openssl/hmac.h>
#include <openssl/x509.h>
