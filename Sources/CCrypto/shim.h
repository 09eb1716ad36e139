#include <stddef.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
