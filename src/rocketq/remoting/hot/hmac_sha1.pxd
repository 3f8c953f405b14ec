# HMAC-SHA1 as compiled modules do it; hmac_sha1.py says what each of these does.
# A key that is ready is the state of SHA-1 after the inner and after the outer padding, and
# the key's block behind them.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE


cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    typedef struct { uint32_t words[5]; } rq_sha1_state;

    #define RQ_ROL(x, n) (((x) << (n)) | ((x) >> (32 - (n))))
    #define RQ_NEXT(i) (w[(i) & 15] = RQ_ROL(w[((i) + 13) & 15] ^ w[((i) + 8) & 15] \
                                             ^ w[((i) + 2) & 15] ^ w[(i) & 15], 1))
    #define RQ_WORD(i) ((i) < 16 ? w[(i) & 15] : RQ_NEXT(i))
    #define RQ_CHOOSE(b, c, d) ((d) ^ ((b) & ((c) ^ (d))))
    #define RQ_PARITY(b, c, d) ((b) ^ (c) ^ (d))
    #define RQ_MAJORITY(b, c, d) (((b) & (c)) | ((d) & ((b) | (c))))
    #define RQ_ROUND(a, b, c, d, e, f, k, i) \
        e += RQ_ROL(a, 5) + f(b, c, d) + (k) + RQ_WORD(i); b = RQ_ROL(b, 30);
    #define RQ_FIVE(f, k, i) \
        RQ_ROUND(a, b, c, d, e, f, k, i) RQ_ROUND(e, a, b, c, d, f, k, (i) + 1) \
        RQ_ROUND(d, e, a, b, c, f, k, (i) + 2) RQ_ROUND(c, d, e, a, b, f, k, (i) + 3) \
        RQ_ROUND(b, c, d, e, a, f, k, (i) + 4)
    #define RQ_TWENTY(f, k, i) \
        RQ_FIVE(f, k, i) RQ_FIVE(f, k, (i) + 5) RQ_FIVE(f, k, (i) + 10) RQ_FIVE(f, k, (i) + 15)

    static void rq_sha1_begin(rq_sha1_state *state) {
        static const uint32_t first[5] = {
            0x67452301u, 0xEFCDAB89u, 0x98BADCFEu, 0x10325476u, 0xC3D2E1F0u};
        memcpy(state->words, first, sizeof first);
    }

    static void rq_sha1_blocks(rq_sha1_state *state, const unsigned char *at, size_t count) {
        uint32_t *s = state->words;
        uint32_t w[16];
        for (; count; count--, at += 64) {
            uint32_t a = s[0], b = s[1], c = s[2], d = s[3], e = s[4];
            int i;
            for (i = 0; i < 16; i++)
                w[i] = (uint32_t)at[4 * i] << 24 | (uint32_t)at[4 * i + 1] << 16
                     | (uint32_t)at[4 * i + 2] << 8 | at[4 * i + 3];
            RQ_TWENTY(RQ_CHOOSE, 0x5A827999u, 0)
            RQ_TWENTY(RQ_PARITY, 0x6ED9EBA1u, 20)
            RQ_TWENTY(RQ_MAJORITY, 0x8F1BBCDCu, 40)
            RQ_TWENTY(RQ_PARITY, 0xCA62C1D6u, 60)
            s[0] += a; s[1] += b; s[2] += c; s[3] += d; s[4] += e;
        }
    }

    /* The rest of a text of which one block has been taken in, and what comes of it. */
    static void rq_sha1_end(rq_sha1_state *state, const unsigned char *at, size_t size,
                            unsigned char *out) {
        unsigned char last[128];
        size_t whole = size / 64, left = size % 64, padded = left < 56 ? 64 : 128;
        uint64_t bits = ((uint64_t)size + 64) * 8;
        int i;
        rq_sha1_blocks(state, at, whole);
        memset(last, 0, sizeof last);
        memcpy(last, at + whole * 64, left);
        last[left] = 0x80;
        for (i = 0; i < 8; i++)
            last[padded - 1 - i] = (unsigned char)(bits >> (8 * i));
        rq_sha1_blocks(state, last, padded / 64);
        for (i = 0; i < 20; i++)
            out[i] = (unsigned char)(state->words[i / 4] >> (24 - 8 * (i % 4)));
    }

    static void rq_hmac_ready(const unsigned char *block, rq_sha1_state *states) {
        unsigned char inner[64], outer[64];
        int i;
        for (i = 0; i < 64; i++) {
            inner[i] = block[i] ^ 0x36;
            outer[i] = block[i] ^ 0x5C;
        }
        rq_sha1_begin(&states[0]);
        rq_sha1_begin(&states[1]);
        rq_sha1_blocks(&states[0], inner, 1);
        rq_sha1_blocks(&states[1], outer, 1);
    }

    static void rq_hmac_digest(const void *ready, const unsigned char *content, size_t size,
                               unsigned char *out) {
        rq_sha1_state states[2];
        unsigned char inner[20];
        memcpy(states, ready, sizeof states);
        rq_sha1_end(&states[0], content, size, inner);
        rq_sha1_end(&states[1], inner, sizeof inner, out);
    }
    """
    ctypedef struct rq_sha1_state:
        pass

    void rq_hmac_ready(const unsigned char* block, rq_sha1_state* states) nogil
    void rq_hmac_digest(
        const void* ready, const unsigned char* content, size_t size, unsigned char* out
    ) nogil


cdef inline bytes ready(bytes block):
    cdef rq_sha1_state[2] states
    assert PyBytes_GET_SIZE(block) == 64
    rq_hmac_ready(<const unsigned char*> PyBytes_AS_STRING(block), states)
    return PyBytes_FromStringAndSize(<const char*> states, sizeof(states)) + block


cdef inline bytes digest(bytes ready, bytes content):
    cdef unsigned char[20] out
    assert PyBytes_GET_SIZE(ready) == 104
    rq_hmac_digest(
        PyBytes_AS_STRING(ready),
        <const unsigned char*> PyBytes_AS_STRING(content),
        PyBytes_GET_SIZE(content),
        out,
    )
    return PyBytes_FromStringAndSize(<const char*> out, 20)
